//! The pods at the gate, and what registries said to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ::placement::{Knowledge, Uninspectable};
use cluster_view::placement::Failure;
use parking_lot::Mutex;
use runtime::Key;
use tokio::time::Instant;

/// The first wait after a registry failed; it doubles with every further failure.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// All of them; clones share it.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    pods: Arc<Mutex<HashMap<Key, Waiting>>>,
}

/// A pod at the gate.
struct Waiting {
    uid: String,
    policy: String,
    /// Since when this process knows of it. What happened before it started is not held against a pod.
    since: Instant,
    looking: bool,
    failures: u32,
    /// Not before this time.
    next: Instant,
    looked: BTreeMap<String, Result<Knowledge, Failure>>,
    held: Option<Held>,
}

/// Why a pod is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What to do about a pod with images that are not known.
pub(super) enum Turn {
    /// Look, and come back after this time at the latest.
    Look(Duration),
    /// Somebody looks, or it is too early; come back after this time at the latest.
    Wait(Duration),
    /// It has waited for long enough.
    Late,
}

impl Ledger {
    /// A pod is at the gate, and this policy is for it.
    pub(super) fn waits(&self, key: &Key, uid: &str, policy: &str) {
        let mut pods = self.pods.lock();
        let known = pods.get_mut(key).filter(|known| known.uid == uid);
        if let Some(known) = known {
            policy.clone_into(&mut known.policy);
            return;
        }
        let now = Instant::now();
        let waiting = Waiting {
            uid: uid.to_owned(),
            policy: policy.to_owned(),
            since: now,
            looking: false,
            failures: 0,
            next: now,
            looked: BTreeMap::new(),
            held: None,
        };
        pods.insert(key.clone(), waiting);
    }

    /// A pod is not at the gate any more. Says whether it was.
    pub(super) fn forget(&self, key: &Key) -> bool {
        self.pods.lock().remove(key).is_some()
    }

    /// All of them, by name.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.pods.lock().keys().cloned().collect()
    }

    /// How long a pod has waited.
    pub(super) fn waited(&self, key: &Key) -> Duration {
        let pods = self.pods.lock();
        pods.get(key)
            .map(|it| it.since.elapsed())
            .unwrap_or_default()
    }

    /// What is to be done next about a pod that may wait for so long.
    pub(super) fn turn(&self, key: &Key, patience: Duration) -> Turn {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            return Turn::Wait(FIRST);
        };
        let now = Instant::now();
        let left = (waiting.since + patience).saturating_duration_since(now);
        if left.is_zero() {
            return Turn::Late;
        }
        let early = waiting.next.saturating_duration_since(now);
        if waiting.looking {
            Turn::Wait(left)
        } else if early.is_zero() {
            waiting.looking = true;
            Turn::Look(left)
        } else {
            Turn::Wait(left.min(early))
        }
    }

    /// Registries said something.
    pub(super) fn looked(&self, key: &Key, looked: Vec<(String, Result<Knowledge, Failure>)>) {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            return;
        };
        waiting.looking = false;
        let mut pause = Duration::ZERO;
        for (image, result) in looked {
            if let Err(failure) = &result {
                pause = pause.max(failure.retry_after.unwrap_or_default());
            }
            waiting.looked.insert(image, result);
        }
        let doubled = FIRST.saturating_mul(1 << waiting.failures.min(10));
        waiting.failures = waiting.failures.saturating_add(1);
        waiting.next = Instant::now() + doubled.min(LONGEST).max(pause);
    }

    /// What was said of an image, if asking again would not help.
    pub(super) fn known(&self, key: &Key, image: &str) -> Option<Knowledge> {
        match self.pods.lock().get(key)?.looked.get(image)? {
            Ok(known) => Some(known.clone()),
            Err(failure) => (!failure.known.passing).then(|| failure.knowledge()),
        }
    }

    /// What is said of an image that nobody waits for any more.
    pub(super) fn given_up(&self, key: &Key, image: &str, patience: Duration) -> Knowledge {
        let pods = self.pods.lock();
        let looked = pods.get(key).and_then(|it| it.looked.get(image));
        let why = match looked {
            Some(Err(failure)) => failure.known.message.clone(),
            _ => "the registry does not answer".to_owned(),
        };
        Knowledge::Uninspectable(Uninspectable {
            message: format!("{why} (nothing else in {} s)", patience.as_secs()),
            passing: true,
        })
    }

    /// A pod is held. Says whether that is news.
    pub(super) fn held(&self, key: &Key, held: Held) -> bool {
        let mut pods = self.pods.lock();
        let Some(waiting) = pods.get_mut(key) else {
            return true;
        };
        let news = waiting.held.as_ref() != Some(&held);
        waiting.held = Some(held);
        news
    }

    /// Whether a pod is held.
    pub(super) fn is_held(&self, key: &Key) -> bool {
        let pods = self.pods.lock();
        pods.get(key).is_some_and(|waiting| waiting.held.is_some())
    }

    /// Every pod: its policy, and why it is held, if it is.
    pub(super) fn all(&self) -> Vec<(Key, String, Option<&'static str>)> {
        let pods = self.pods.lock();
        let pods = pods.iter().map(|(key, it)| {
            let held = it.held.as_ref().map(|held| held.reason);
            (key.clone(), it.policy.clone(), held)
        });
        pods.collect()
    }
}

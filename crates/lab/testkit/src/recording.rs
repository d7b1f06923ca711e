//! Recordings: what a program writes while a story is played, so that a stand-in can be held to it.
//!
//! A story is a function that plays on a cluster beside a genuine program, or beside its stand-in: it creates and edits
//! objects, waits until the program has answered, and ends each step with [`Recorder::step`]. A [`Trace`] has what the
//! program wrote, step by step. The genuine suite compares it with a checked-in file, [`Trace::assert_recorded`]; the test
//! of the stand-in with the same file, [`Trace::assert_imitates`].
//!
//! The program's fields are those that `metadata.managedFields` gives to any manager other than the story's own. A field
//! that a trace does not have was never written. Compared is what has settled at the end of each step: in which order and
//! how often a controller came there depends on when its caches saw what. Of fields that were written and removed within
//! a step, the paths are kept.

mod compare;
mod normal;
mod owned;
mod trace;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kube::core::ApiResource;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;

pub use trace::{LeftOut, Step, Trace};

use watched::{State, Watched};

/// A step has settled when the program has written nothing for this long. A story first waits for what the program writes
/// last; this is for the fields that it writes together with it.
const QUIET: Duration = Duration::from_millis(1500);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A program that keeps writing never settles.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(2);
/// Field managers of [`TestCluster::node`](crate::TestCluster::node) and
/// [`install_peer_crds`](crate::install_peer_crds).
const TEST_MANAGERS: [&str; 2] = ["kubelet", "peers"];

/// What to record.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    kinds: Vec<ApiResource>,
    story: Vec<String>,
    replaced: Vec<(String, String)>,
    hidden: BTreeSet<String>,
    sequences: Vec<(String, String)>,
    is_ordered: bool,
}

impl Subject {
    /// Objects of these kinds. A kind that is not served yet is watched as soon as it is.
    pub fn new(kinds: impl IntoIterator<Item = ApiResource>) -> Self {
        Self {
            kinds: kinds.into_iter().collect(),
            story: TEST_MANAGERS.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }

    /// Field managers that the story writes as. All others are the program.
    #[must_use]
    pub fn played_by(mut self, managers: &[&str]) -> Self {
        self.story
            .extend(managers.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Replaces a text that differs from run to run, such as an address, in names and values.
    #[must_use]
    pub fn replacing(mut self, text: &str, placeholder: &str) -> Self {
        self.replaced
            .push((text.to_owned(), placeholder.to_owned()));
        self
    }

    /// Keeps only the presence of the fields with this name: their values are resource versions or hashes. Times and
    /// uids are placeholders anyway.
    #[must_use]
    pub fn hiding(mut self, field: &str) -> Self {
        self.hidden.insert(field.to_owned());
        self
    }

    /// Also records the distinct values of a field in the order in which they were written, as JSON pointer, such as
    /// `/status/phase`.
    #[must_use]
    pub fn following(mut self, kind: &str, pointer: &str) -> Self {
        self.sequences.push((kind.to_owned(), pointer.to_owned()));
        self
    }

    /// Also records in which order the objects were first written in each step. Only for a program that writes one after
    /// the other.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.is_ordered = true;
        self
    }
}

/// Watches a cluster while a story is played.
pub struct Recorder {
    client: Client,
    subject: Subject,
    state: Arc<Mutex<State>>,
    watches: Vec<AbortHandle>,
    steps: Mutex<Vec<Step>>,
}

impl Recorder {
    /// Watches the kinds; to be started before the program.
    pub fn start(client: Client, subject: Subject) -> Self {
        let state = Arc::new(Mutex::new(State::new(&subject)));
        let watches = subject.kinds.iter().map(|kind| {
            let watched = Watched::new(client.clone(), kind.clone(), Arc::clone(&state));
            tokio::spawn(watched.run()).abort_handle()
        });
        let watches = watches.collect();
        Self {
            client,
            subject,
            state,
            watches,
            steps: Mutex::default(),
        }
    }

    /// Ends a step of the story: waits until the program writes no more, and records what has changed since the last
    /// step.
    pub async fn step(&self, name: &str) -> anyhow::Result<()> {
        self.settle()
            .await
            .with_context(|| format!("recording the step {name:?}"))?;
        let mut state = self.state.lock();
        let steps: &mut Vec<Step> = &mut self.steps.lock();
        anyhow::ensure!(
            steps.iter().all(|it| it.step != name),
            "two steps are named {name:?}"
        );
        steps.push(state.end_step(name, &self.subject));
        Ok(())
    }

    async fn settle(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut last = (0, Instant::now());
        loop {
            let listed = self.list().await?;
            let (writes, behind, latest) = {
                let state = self.state.lock();
                (
                    state.writes(),
                    state.behind(&listed),
                    state.latest().cloned(),
                )
            };
            if behind.is_some() || writes != last.0 {
                last = (writes, Instant::now());
            } else if last.1.elapsed() >= QUIET {
                return Ok(());
            }
            if started.elapsed() > SETTLE_TIMEOUT {
                bail!(
                    "the program still writes after {SETTLE_TIMEOUT:?}; last: {latest:?}, not seen yet: {behind:?}"
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The resource versions of all objects of the kinds that are served, by kind, namespace and name.
    async fn list(&self) -> anyhow::Result<BTreeMap<watched::Key, String>> {
        let mut all = BTreeMap::new();
        for kind in &self.subject.kinds {
            let api: Api<kube::api::DynamicObject> = Api::all_with(self.client.clone(), kind);
            let listed = match api.list(&kube::api::ListParams::default()).await {
                Ok(listed) => listed,
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("listing {}", kind.plural));
                }
            };
            for object in listed {
                let version = object.metadata.resource_version.clone();
                let key = watched::key(kind, &object.metadata);
                all.insert(key, version.unwrap_or_default());
            }
        }
        Ok(all)
    }

    /// The trace of all steps.
    pub fn finish(self) -> Trace {
        let passing = self.state.lock().passing();
        let steps = std::mem::take(&mut *self.steps.lock());
        Trace::new(steps, passing)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for watch in &self.watches {
            watch.abort();
        }
    }
}

/// The path of a recording, such as `descheduler/operator.json`: they are beside the stand-ins.
pub fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fleet/recordings")
        .join(name)
}

/// A JSON value as one line.
fn line(value: &Value) -> String {
    value.to_string()
}

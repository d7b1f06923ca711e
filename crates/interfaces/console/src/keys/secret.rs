//! Keys in a Secret, which the replicas create and rotate.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use super::ring::PROPAGATION_TIME;
use super::{Ended, Key, prune};

/// Entry of the Secret: the keys, as JSON.
const KEYS: &str = "keys.json";
/// Entry of the Secret: sessions that were ended, as JSON.
const ENDED: &str = "ended.json";
/// How long a key encrypts.
// A leaked key is of use for this time, and cookies expire long before.
const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// How long a key decrypts after its successor encrypts: longer than an unused session lasts, since
/// every use of a session encrypts its cookie anew.
const RETENTION_TIME: SignedDuration = SignedDuration::from_hours(1);
/// Attempts of a write that conflicts with other replicas.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// The keys to keep, oldest first, with another one if it is time.
pub(super) fn rotate(mut keys: Vec<Key>, now: Timestamp) -> Vec<Key> {
    keys.sort_by_key(|key| key.made);
    let outdates_others =
        |key: &Key| now.duration_since(key.made) >= PROPAGATION_TIME + RETENTION_TIME;
    let outdated = keys.iter().rposition(outdates_others);
    let mut kept = keys.split_off(outdated.unwrap_or_default());
    let is_old = |key: &Key| now.duration_since(key.made) >= KEY_LIFETIME;
    if kept.last().is_none_or(is_old) {
        kept.push(Key::random(now));
    }
    kept
}

/// Reads the Secret, and writes what has changed: keys that are due, and sessions that were ended
/// here. Returns the keys and all ended sessions.
pub(super) async fn synchronize(
    secrets: &Api<Secret>,
    namespace: &str,
    name: &str,
    ended_here: &Ended,
    now: Timestamp,
) -> Result<(Vec<Key>, Ended), runtime::Error> {
    let failed = |operation: &str| {
        let what = format!("{operation} Secret {namespace}/{name}");
        runtime::Error::api(what)
    };
    // Replicas start at the same time and each creates a key. Optimistic locking lets one win; the
    // others read its key instead of encrypting with their own.
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let found = secrets.get_opt(name).await.map_err(failed("reading"))?;
        let mut before: Vec<Key> = decode(found.as_ref(), KEYS);
        before.retain(Key::is_usable);
        let ended_before: Ended = decode(found.as_ref(), ENDED);
        let keys = rotate(before.clone(), now);
        let mut ended = ended_before.clone();
        ended.extend(ended_here.clone());
        prune(&mut ended, now);
        let is_news = ended.keys().any(|it| !ended_before.contains_key(it));
        if keys == before && !is_news {
            return Ok((keys, ended));
        }
        match write(secrets, name, found, &keys, &ended).await {
            Ok(()) => {
                if keys.last() != before.last() {
                    info!(secret = name, "created a key for the console's sessions");
                }
                return Ok((keys, ended));
            }
            // 409: another replica has written or created it.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed("writing")(error)),
        }
    }
    Err(runtime::Error::Late(format!(
        "Secret {namespace}/{name} was modified by other replicas during {MAX_WRITE_ATTEMPTS} attempts"
    )))
}

async fn write(
    secrets: &Api<Secret>,
    name: &str,
    found: Option<Secret>,
    keys: &[Key],
    ended: &Ended,
) -> Result<(), kube::Error> {
    let json = |value| ByteString(value);
    let data = BTreeMap::from([
        (
            KEYS.to_owned(),
            json(serde_json::to_vec(keys).map_err(kube::Error::SerdeError)?),
        ),
        (
            ENDED.to_owned(),
            json(serde_json::to_vec(ended).map_err(kube::Error::SerdeError)?),
        ),
    ]);
    let params = PostParams::default();
    if let Some(mut secret) = found {
        // The resourceVersion that was read is sent along, so that a write of another replica is not
        // overwritten.
        secret.data = Some(data);
        secrets.replace(name, &params, &secret).await?;
        return Ok(());
    }
    let part_of = ("app.kubernetes.io/part-of".to_owned(), "medley".to_owned());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([part_of])),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    };
    secrets.create(&params, &secret).await?;
    Ok(())
}

/// An entry of the Secret; empty if it cannot be decoded, so that it is replaced.
fn decode<T: DeserializeOwned + Default>(secret: Option<&Secret>, entry: &str) -> T {
    let data = secret.and_then(|secret| secret.data.as_ref());
    let Some(json) = data.and_then(|data| data.get(entry)) else {
        return T::default();
    };
    serde_json::from_slice(&json.0).unwrap_or_else(|error| {
        // The position, and not the content, which is secret.
        let (line, column) = (error.line(), error.column());
        warn!(
            entry,
            line, column, "cannot decode the Secret of the console's sessions; replacing it"
        );
        T::default()
    })
}

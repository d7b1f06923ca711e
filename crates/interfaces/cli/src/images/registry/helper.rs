//! Credential helpers: programs `docker-credential-NAME` that keep credentials or fetch short-lived ones.
//!
//! The protocol is that of docker-credential-helpers: the registry on standard input, JSON on standard output.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use oci::{Credential, HelperEntry, Keyring};
use serde::Deserialize;
use tracing::{debug, warn};

/// Longest run of a helper. Some ask a cloud for a token, a few ask the user for a password.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Size limit of an answer. Tokens have some kilobytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// What helpers print for a registry without a credential (`credentials/error.go` of docker-credential-helpers).
const NOT_FOUND: &str = "credentials not found in native keychain";

/// Not `Debug`: it has a secret.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Adds the credentials of all entries; helpers run at the same time. A failed helper is a warning: the registry may accept
/// requests without a credential, and names its refusal otherwise.
pub(super) fn add_credentials(keyring: &mut Keyring, entries: &[HelperEntry]) {
    thread::scope(|scope| {
        let running: Vec<_> = entries
            .iter()
            .map(|entry| (entry, scope.spawn(|| credential(entry))))
            .collect();
        for (entry, answer) in running {
            match answer.join() {
                Ok(Ok(Some(credential))) => {
                    keyring.add(&entry.registry, credential);
                }
                Ok(Ok(None)) => debug!(registry = entry.registry, "no credential"),
                Ok(Err(error)) => warn!(
                    registry = entry.registry,
                    helper = entry.helper,
                    "ignoring a credential helper: {error:#}"
                ),
                // The panic has been reported by its thread.
                Err(_) => {}
            }
        }
    });
}

/// The credential that a helper returns; `None` if it has none for the registry.
fn credential(entry: &HelperEntry) -> anyhow::Result<Option<Credential>> {
    let program = format!("docker-credential-{}", entry.helper);
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let input = child.stdin.take().context("no standard input")?;
    let output = child.stdout.take().context("no standard output")?;
    // The pipe ends when the program does, and programs that it has started.
    let (send, receive) = mpsc::channel();
    let registry = entry.registry.clone();
    thread::spawn(move || {
        let mut input = input;
        // A helper that does not read its input has answered without it.
        let _ = input.write_all(registry.as_bytes());
        drop(input);
        let mut text = Vec::new();
        let read = output.take(MAX_ANSWER_BYTES).read_to_end(&mut text);
        // The receiver is gone after the timeout.
        let _ = send.send(read.map(|_| text));
    });
    let Ok(read) = receive.recv_timeout(TIMEOUT) else {
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        bail!("{program} has not answered within {} s", TIMEOUT.as_secs());
    };
    let text = read.with_context(|| format!("reading the output of {program}"))?;
    let status = child
        .wait()
        .with_context(|| format!("waiting for {program}"))?;
    if !status.success() {
        // The protocol has error messages on standard output.
        let message = String::from_utf8_lossy(&text);
        let message = message.trim();
        if message == NOT_FOUND {
            return Ok(None);
        }
        bail!("{program} failed ({status}): {message}");
    }
    // The message of serde may quote the answer, which is secret.
    let Ok(answer) = serde_json::from_slice::<Answer>(&text) else {
        bail!("{program} printed no object with \"Username\" and \"Secret\"");
    };
    Ok(Some(Credential::of_helper(answer.username, answer.secret)))
}

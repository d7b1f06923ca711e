//! Responses read line by line: watches.

use std::time::Duration;

use anyhow::Context as _;
use bytes::BytesMut;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::cluster::Answer;

/// Timeout for a line: a test that waits longer waits for a line that does not come.
const LINE_TIMEOUT: Duration = Duration::from_secs(20);

/// A response in progress. Dropping it ends the request.
pub struct Lines {
    /// Status code.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    body: Answer,
    pending: BytesMut,
}

impl Lines {
    pub(crate) fn new(response: Response<Answer>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body,
            pending: BytesMut::new(),
        }
    }

    /// The next line without its terminator; `None` at the end of the response.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        tokio::time::timeout(LINE_TIMEOUT, self.read())
            .await
            .with_context(|| format!("no line within {LINE_TIMEOUT:?}"))?
    }

    /// The next line as JSON; `None` at the end of the response.
    pub async fn next_json(&mut self) -> anyhow::Result<Option<Value>> {
        let Some(line) = self.next().await? else {
            return Ok(None);
        };
        serde_json::from_str(&line)
            .with_context(|| format!("reading {line:?} as JSON"))
            .map(Some)
    }

    async fn read(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line = self.pending.split_to(end + 1);
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame
                        .map_err(|error| anyhow::anyhow!(error).context("reading the answer"))?
                        .into_data()
                    {
                        self.pending.extend_from_slice(&data);
                    }
                }
                None if self.pending.is_empty() => return Ok(None),
                None => {
                    let rest = self.pending.split();
                    return Ok(Some(String::from_utf8_lossy(&rest).into_owned()));
                }
            }
        }
    }
}

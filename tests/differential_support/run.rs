//! Sends requests and compares responses.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use regex::{Captures, Regex};
use serde_json::{Value, json};
use testkit::TestCluster;

use super::compare::{self, difference};
use super::corpus::{Expect, Request, Step, Until};
use super::{normalise, pointer};

/// Limit for asynchronous effects, such as a CRD becoming established.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Determines the field manager of steps that do not name one.
const USER_AGENT: &str = "probe/1.0 (x)";
const JSON: &str = "application/json";

static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{([A-Za-z0-9_]+)\}").expect("the pattern is well-formed"));

/// One scenario on one cluster.
pub(crate) struct Run<'a> {
    cluster: &'a TestCluster,
    divergences: &'a str,
    captured: BTreeMap<String, String>,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) json: Option<Value>,
    /// Whether `json` is the list of events of a watch.
    pub(crate) events: bool,
}

impl<'a> Run<'a> {
    /// Begins a scenario; `divergences` is the text that explains known differences.
    pub(crate) fn new(cluster: &'a TestCluster, divergences: &'a str) -> Self {
        Self {
            cluster,
            divergences,
            captured: BTreeMap::new(),
        }
    }

    /// Performs one step; returns the differences.
    pub(crate) async fn step(&mut self, step: &Step) -> Vec<String> {
        let answer = match self.answer(step).await {
            Ok(answer) => answer,
            Err(error) => return vec![format!("{error:#}")],
        };
        let mut problems = judge(step, &answer, self.cluster.is_genuine(), self.divergences);
        let document = answer.json.unwrap_or_default();
        for (name, at) in &step.capture {
            match pointer::look(&document, at) {
                Some(Value::String(text)) => {
                    self.captured.insert(name.clone(), text.clone());
                }
                Some(value) => {
                    self.captured.insert(name.clone(), value.to_string());
                }
                None => problems.push(format!("{at}: nothing to keep as {name}")),
            }
        }
        for (wanted, relations) in [(true, &step.check.equal), (false, &step.check.differ)] {
            for (at, template) in relations {
                match self.fill(template) {
                    Ok(kept) => {
                        let got = pointer::look(&document, at);
                        if (got.and_then(Value::as_str) == Some(kept.as_str())) != wanted {
                            let relation = if wanted { "equal" } else { "differ from" };
                            problems.push(format!("{at}: {got:?} must {relation} {kept:?}"));
                        }
                    }
                    Err(error) => problems.push(format!("{error:#}")),
                }
            }
        }
        problems
    }

    async fn answer(&self, step: &Step) -> anyhow::Result<Answer> {
        let begin = Instant::now();
        loop {
            let answer = self.exchange(step).await?;
            match &step.until {
                Some(until) if !reached(until, &answer) => {
                    if begin.elapsed() > CONVERGENCE_TIMEOUT {
                        let body = String::from_utf8_lossy(&answer.body);
                        anyhow::bail!("did not come: {until:?}; last: {} {body}", answer.status);
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn exchange(&self, step: &Step) -> anyhow::Result<Answer> {
        let request = self.request(&step.request)?;
        let Some(watch) = &step.watch else {
            let (parts, body) = self.cluster.request(request).await?.into_parts();
            return Ok(Answer {
                status: parts.status.as_u16(),
                headers: parts.headers,
                json: serde_json::from_slice(&body).ok(),
                body: body.to_vec(),
                events: false,
            });
        };
        let mut lines = self.cluster.stream(request).await?;
        let events = lines.status.is_success();
        let mut texts = Vec::new();
        while !events || texts.len() < watch.events {
            match lines.next().await? {
                Some(line) if events && line.trim().is_empty() => {}
                Some(line) => texts.push(line),
                None => break,
            }
        }
        let body = texts.join("\n").into_bytes();
        let json = if events {
            let events: Result<Vec<Value>, _> = texts
                .iter()
                .map(|line| serde_json::from_str(line))
                .collect();
            Some(Value::Array(events.context("reading events")?))
        } else {
            serde_json::from_slice(&body).ok()
        };
        Ok(Answer {
            status: lines.status.as_u16(),
            headers: lines.headers.clone(),
            body,
            json,
            events,
        })
    }

    fn request(&self, request: &Request) -> anyhow::Result<http::Request<Vec<u8>>> {
        let body = if let Some(encoded) = &request.body_base64 {
            let engine = base64::engine::general_purpose::STANDARD;
            Some(engine.decode(encoded).context("decoding bodyBase64")?)
        } else if let Some(text) = &request.text {
            Some(self.fill(text)?.into_bytes())
        } else if let Some(repeat) = &request.repeat {
            Some(repeat.unit.repeat(repeat.times).into_bytes())
        } else {
            let body = request.body.as_ref().map(|body| self.fill_value(body));
            body.transpose()?.map(|body| body.to_string().into_bytes())
        };
        let mut headers = BTreeMap::from([
            ("user-agent".to_owned(), USER_AGENT.to_owned()),
            (
                "accept".to_owned(),
                request.accept.clone().unwrap_or_else(|| JSON.to_owned()),
            ),
        ]);
        if let Some(content_type) = &request.content_type {
            headers.insert("content-type".to_owned(), content_type.clone());
        } else if body.is_some() {
            headers.insert("content-type".to_owned(), JSON.to_owned());
        }
        for (name, value) in &request.headers {
            headers.insert(name.to_lowercase(), self.fill(value)?);
        }
        let path = self.fill(&request.path)?;
        let mut built = http::Request::builder()
            .method(request.method.as_str())
            .uri(path)
            .body(body.unwrap_or_default())?;
        for (name, value) in headers {
            let name: HeaderName = name.parse()?;
            built
                .headers_mut()
                .insert(name, HeaderValue::from_str(&value)?);
        }
        Ok(built)
    }

    /// Substitutes captured values.
    fn fill(&self, template: &str) -> anyhow::Result<String> {
        let mut missing = None;
        let filled = VARIABLE.replace_all(template, |found: &Captures<'_>| {
            self.captured.get(&found[1]).cloned().unwrap_or_else(|| {
                missing = Some(found[1].to_owned());
                String::new()
            })
        });
        match missing {
            Some(name) => anyhow::bail!("needs {name:?}, which no earlier step gave"),
            None => Ok(filled.into_owned()),
        }
    }

    fn fill_value(&self, value: &Value) -> anyhow::Result<Value> {
        Ok(match value {
            Value::String(text) => Value::String(self.fill(text)?),
            Value::Array(items) => items
                .iter()
                .map(|item| self.fill_value(item))
                .collect::<anyhow::Result<_>>()?,
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| Ok((self.fill(key)?, self.fill_value(value)?)))
                .collect::<anyhow::Result<_>>()?,
            scalar => scalar.clone(),
        })
    }
}

/// Compares with the recorded response or, on the embedded server, with the documented divergence.
pub(crate) fn judge(step: &Step, answer: &Answer, genuine: bool, divergences: &str) -> Vec<String> {
    let problems = against(step, &step.expect, answer);
    let Some(id) = step.divergence.as_deref().filter(|_| !genuine) else {
        return problems;
    };
    let quoted = format!("`{id}`");
    let documented = divergences
        .lines()
        .any(|line| line.contains(&quoted) || line.trim_start_matches('#').trim() == id);
    if !documented {
        return vec![format!("the divergence {id:?} is not documented")];
    }
    if problems.is_empty() {
        return vec![format!(
            "the divergence {id:?} is gone: remove it from the step"
        )];
    }
    let embedded = step.embedded.as_ref();
    embedded.map_or_else(Vec::new, |embedded| against(step, embedded, answer))
}

fn reached(until: &Until, answer: &Answer) -> bool {
    let status = until.status.is_none_or(|status| status == answer.status);
    let value = until.pointer.as_ref().is_none_or(|at| {
        let document = answer.json.as_ref();
        document.and_then(|document| pointer::look(document, at)) == until.equals.as_ref()
    });
    status && value
}

/// Compares a response with an expectation.
fn against(step: &Step, expect: &Expect, answer: &Answer) -> Vec<String> {
    let mut problems = Vec::new();
    if answer.status != expect.status {
        let (expected, got) = (expect.status.to_string(), answer.status.to_string());
        problems.push(difference("status", &expected, &got));
    }
    let warnings = warnings(&answer.headers);
    if warnings != expect.warnings {
        let (expected, got) = (json!(expect.warnings), json!(warnings));
        problems.push(difference(
            "warnings",
            &expected.to_string(),
            &got.to_string(),
        ));
    }
    for (name, expected) in &expect.headers {
        let got = answer
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        let got = got.map(normalise::text);
        if got != *expected {
            problems.push(difference(
                name,
                &format!("{expected:?}"),
                &format!("{got:?}"),
            ));
        }
    }
    problems.extend(body(step, expect, answer));
    problems
}

fn body(step: &Step, expect: &Expect, answer: &Answer) -> Vec<String> {
    if let Some(text) = &expect.text {
        let got = if answer.body.starts_with(b"k8s\0") {
            "<protobuf>".to_owned()
        } else {
            normalise::text(&String::from_utf8_lossy(&answer.body))
        };
        return if got == *text {
            Vec::new()
        } else {
            vec![difference("text", text, &got)]
        };
    }
    let text = || String::from_utf8_lossy(&answer.body).into_owned();
    let Some(expected) = expect.events.as_ref().or(expect.body.as_ref()) else {
        return if answer.body.is_empty() {
            Vec::new()
        } else {
            vec![difference("body", "nothing", &text())]
        };
    };
    if expect.events.is_some() != answer.events {
        return vec![difference("body", &expected.to_string(), &text())];
    }
    let Some(document) = &answer.json else {
        return vec![difference("body", &expected.to_string(), &text())];
    };
    let document = normalise::value(document);
    match &step.pick {
        Some(pick) if !answer.events => {
            let picked: serde_json::Map<String, Value> = pick
                .iter()
                .map(|(name, at)| {
                    let part = pointer::look(&document, at).cloned();
                    (name.clone(), part.unwrap_or_else(|| "<absent>".into()))
                })
                .collect();
            compare::documents(expected, &Value::Object(picked))
        }
        _ => compare::documents(expected, &document),
    }
}

/// The texts of the Warning headers.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(http::header::WARNING)
        .iter()
        .map(|value| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            let quoted = value
                .strip_prefix("299 - \"")
                .and_then(|rest| rest.strip_suffix('"'))
                .map(|text| text.replace("\\\"", "\"").replace("\\\\", "\\"));
            normalise::text(&quoted.unwrap_or(value))
        })
        .collect()
}

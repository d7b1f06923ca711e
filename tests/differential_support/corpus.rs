//! The format of the corpus.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// One file: a self-contained sequence of exchanges.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    #[expect(dead_code, reason = "for the reader of the file")]
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One exchange.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) name: String,
    #[serde(default)]
    #[expect(dead_code, reason = "for the reader of the file")]
    pub(crate) note: Option<String>,
    pub(crate) request: Request,
    /// Repeat the request until the response satisfies this.
    #[serde(default)]
    pub(crate) until: Option<Until>,
    /// The response is a watch stream.
    #[serde(default)]
    pub(crate) watch: Option<Watch>,
    /// Compare only these parts: a name and a JSON pointer each.
    #[serde(default)]
    pub(crate) pick: Option<BTreeMap<String, String>>,
    /// Values of the response to use in later steps.
    #[serde(default)]
    pub(crate) capture: BTreeMap<String, String>,
    /// Relations to captured values, which normalisation would hide.
    #[serde(default)]
    pub(crate) check: Check,
    /// The id in DIVERGENCES.md that explains why the embedded server differs.
    #[serde(default)]
    pub(crate) divergence: Option<String>,
    /// The response of the embedded server.
    #[serde(default)]
    pub(crate) embedded: Option<Expect>,
    pub(crate) expect: Expect,
}

/// The request to send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    #[serde(default)]
    pub(crate) accept: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Sent as JSON.
    #[serde(default, deserialize_with = "present")]
    pub(crate) body: Option<Value>,
    /// Sent verbatim.
    #[serde(default)]
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) body_base64: Option<String>,
    #[serde(default)]
    pub(crate) repeat: Option<Repeat>,
}

/// A body too large to be stored in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    pub(crate) unit: String,
    pub(crate) times: usize,
}

/// When to stop repeating the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    #[serde(default)]
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) pointer: Option<String>,
    #[serde(default)]
    pub(crate) equals: Option<Value>,
}

/// How much of a stream to read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    pub(crate) events: usize,
}

/// Values that equal, or differ from, captured ones.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    #[serde(default)]
    pub(crate) equal: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) differ: BTreeMap<String, String>,
}

/// The expected response, normalised.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Option<String>>,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) body: Option<Value>,
    #[serde(default)]
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) events: Option<Value>,
}

/// An explicit null is a value; only an absent field is none.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// All scenarios of a folder by file name.
pub(crate) fn read(folder: &Path) -> anyhow::Result<BTreeMap<String, Scenario>> {
    let mut scenarios = BTreeMap::new();
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let scenario = serde_saphyr::from_str(&text)
            .with_context(|| format!("understanding {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        scenarios.insert(name.into_owned(), scenario);
    }
    Ok(scenarios)
}

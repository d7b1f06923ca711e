//! The format of the corpus.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// One file: exchanges that build on each other and on nothing else.
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
    /// Repeat the request until the answer looks like this.
    #[serde(default)]
    pub(crate) until: Option<Until>,
    /// The answer is a stream of events.
    #[serde(default)]
    pub(crate) watch: Option<Watch>,
    /// Compare only these parts: a name of one's own and where the part is.
    #[serde(default)]
    pub(crate) pick: Option<BTreeMap<String, String>>,
    /// Values of the answer for later steps.
    #[serde(default)]
    pub(crate) capture: BTreeMap<String, String>,
    /// Relations to captured values, which normalising would hide.
    #[serde(default)]
    pub(crate) check: Check,
    /// The line of the list of divergences that explains why the embedded server differs.
    #[serde(default)]
    pub(crate) divergence: Option<String>,
    /// What the embedded server answers instead.
    #[serde(default)]
    pub(crate) embedded: Option<Expect>,
    pub(crate) expect: Expect,
}

/// What is sent.
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
    /// Sent as it is.
    #[serde(default)]
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) body_base64: Option<String>,
    #[serde(default)]
    pub(crate) repeat: Option<Repeat>,
}

/// A body too large to be written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    pub(crate) unit: String,
    pub(crate) times: usize,
}

/// When to stop asking.
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

/// What comes back, normalised.
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

/// A null that is written is a value; only an absent one is none.
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

//! Requirements on fields (`fields.ParseSelector`).

use std::fmt;

/// What one field has to be, or not to be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// Path of the field: `metadata.name`.
    pub field: String,
    /// Whether the field has to equal the value, or to differ from it.
    pub equal: bool,
    /// The value, without escapes.
    pub value: String,
}

/// Requirements that all have to hold; none select everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads the form used in queries: `metadata.name=a,status.phase!=Running`. In values, comma,
    /// equals sign and backslash are escaped by a backslash.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        // `ParseSelector` sorts as well, so that equal selectors print equally.
        terms.sort_unstable();
        let mut requirements = Vec::new();
        // An empty term is skipped, since clients build selectors by joining with commas.
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                ));
            };
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                equal,
                value: unescape(value)?,
            });
        }
        Ok(Self { requirements })
    }

    /// Whether the fields that `lookup` finds are as required; a field that is not there is empty.
    pub fn matches(&self, lookup: impl Fn(&str) -> Option<String>) -> bool {
        self.requirements.iter().all(|one| {
            let found = lookup(&one.field).unwrap_or_default();
            (found == one.value) == one.equal
        })
    }

    /// The value the selector requires a field to have, if any.
    pub fn requires_exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|one| one.equal && one.field == field)
            .map(|one| one.value.as_str())
    }

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, in the order of their text.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, one) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let sign = if one.equal { "=" } else { "!=" };
            write!(f, "{}{sign}", one.field)?;
            for c in one.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped; the escapes stay.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c: char| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

/// Field, whether equality is asked for, and value: split at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().map(|(at, _)| at).find(|at| {
        let rest = &term[*at..];
        rest.starts_with('=') || rest.starts_with("!=")
    })?;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, true, value))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let sequence: String = std::iter::once(c).chain(other).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            // Go prints the character as its number.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            plain => out.push(plain),
        }
    }
    Ok(out)
}

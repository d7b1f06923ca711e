//! Semantic versions in the words of `blang/semver`.

/// Parses a version; `normalize` allows a leading `v`, missing parts and leading zeros.
pub(crate) fn parse(text: &str, normalize: bool) -> Result<semver::Version, String> {
    if normalize {
        return strict(&normalized(text)?);
    }
    strict(text)
}

fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            if part.len() <= 1 {
                return part.to_owned();
            }
            let trimmed = part.trim_start_matches('0');
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                trimmed.to_owned()
            } else {
                format!("0{trimmed}")
            }
        })
        .collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn strict(text: &str) -> Result<semver::Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    if text.splitn(3, '.').count() != 3 {
        return Err("No Major.Minor.Patch elements found".to_owned());
    }
    let core = text.split(['-', '+']).next().unwrap_or_default();
    for (part, name) in core.splitn(3, '.').zip(["major", "minor", "patch"]) {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            let part = crate::json::go_quote(part);
            return Err(format!(
                "Invalid character(s) found in {name} number {part}"
            ));
        }
    }
    semver::Version::parse(text).map_err(|e| e.to_string())
}

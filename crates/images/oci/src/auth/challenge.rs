//! Challenges: the header `WWW-Authenticate`.

use std::collections::BTreeMap;

/// Longer headers are not read.
const LONGEST: usize = 8192;

/// Nobody needs more parameters.
const MOST_PARAMETERS: usize = 32;

/// What a registry wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Name and password.
    Basic,
    /// A token from elsewhere.
    Bearer {
        /// Who gives it.
        realm: String,
        /// For whom.
        service: Option<String>,
        /// For what; the registry may not say.
        scope: Option<String>,
    },
}

impl Demand {
    /// What is wanted, of all that the headers offer: a token rather than a password. `None` if
    /// nothing is offered that can be answered.
    pub(crate) fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut basic = None;
        for challenge in headers.flat_map(challenges) {
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                let mut parameters = challenge.parameters;
                if let Some(realm) = parameters.remove("realm") {
                    return Some(Self::Bearer {
                        realm,
                        service: parameters.remove("service"),
                        scope: parameters.remove("scope").filter(|scope| !scope.is_empty()),
                    });
                }
            } else if challenge.scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Self::Basic);
            }
        }
        basic
    }
}

/// One challenge: a scheme, and parameters under names in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    parameters: BTreeMap<String, String>,
}

/// The challenges in one header. What cannot be read is skipped: a registry that offers something
/// unknown beside something known is still understood.
fn challenges(header: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    if header.len() > LONGEST {
        return found;
    }
    let mut rest = header;
    let mut left = MOST_PARAMETERS;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() || left == 0 {
            return found;
        }
        left -= 1;
        let word_end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_end);
        if word.is_empty() {
            // Nothing that may stand here: go on after the next comma.
            rest = after.split_once(',').map_or("", |(_, rest)| rest);
            continue;
        }
        let value = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        // `abc==` is a token68 of the scheme before it, not a parameter.
        match value.map(|value| value.trim_start_matches([' ', '\t'])) {
            Some(value) if !value.starts_with('=') => {
                let (value, after) = read_value(value);
                if let Some(challenge) = found.last_mut() {
                    challenge
                        .parameters
                        .entry(word.to_ascii_lowercase())
                        .or_insert(value);
                }
                rest = after;
            }
            Some(after) => rest = after.trim_start_matches('='),
            None => {
                found.push(Challenge {
                    scheme: word.to_owned(),
                    parameters: BTreeMap::new(),
                });
                rest = after;
            }
        }
    }
}

/// A quoted text or a word, and what follows.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            _ => value.push(c),
        }
    }
    // Never closed: what there is counts.
    (value, "")
}

/// The characters of a `token` in HTTP.
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

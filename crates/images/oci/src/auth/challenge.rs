//! Challenges in the header `WWW-Authenticate`.

use std::collections::BTreeMap;

/// Longer headers are ignored.
const MAX_HEADER_BYTES: usize = 8192;

/// Upper bound of parameters; real challenges have three.
const MAX_PARAMETERS: usize = 32;

/// The authentication a registry demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Username and password.
    Basic,
    /// A token from a token server.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The service the token is for.
        service: Option<String>,
        /// The scope of the token; a registry may omit it.
        scope: Option<String>,
    },
}

impl Demand {
    /// The preferred challenge of all headers: `Bearer` over `Basic`. `None` if no scheme is supported.
    pub(crate) fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        // `Bearer` wins even after `Basic`: a token is for one repository, and the password then goes to the token
        // server alone.
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

/// One challenge: a scheme, and parameters by lower-case name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    parameters: BTreeMap<String, String>,
}

/// The challenges in one header. Unparsable parts are skipped: a registry may offer an unknown scheme
/// besides a supported one.
fn challenges(header: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    if header.len() > MAX_HEADER_BYTES {
        return found;
    }
    let mut rest = header;
    let mut left = MAX_PARAMETERS;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() || left == 0 {
            return found;
        }
        left -= 1;
        let word_end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_end);
        if word.is_empty() {
            // Not a valid challenge: resume after the next comma.
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
                        // The first of two equal parameters counts, as in Go's parsers; a later `realm` must not
                        // redirect credentials to another server than the one a proxy may have inspected.
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

/// A quoted string or a token, and the rest.
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
    // The quote is never closed: take the rest.
    (value, "")
}

/// The characters of a `token` in HTTP.
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

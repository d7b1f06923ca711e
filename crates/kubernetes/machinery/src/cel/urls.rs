//! URLs by the rules of Go's `net/url` (`ParseRequestURI`).

use std::fmt::Write as _;

use crate::json::go_quote;

/// A parsed URL.
#[derive(Debug, Clone)]
pub(crate) struct Url {
    /// As written.
    pub(crate) source: String,
    /// Without the colon, lower case.
    pub(crate) scheme: String,
    /// With the port, without the user.
    pub(crate) host: String,
    path: String,
    raw_query: String,
}

impl Url {
    /// An absolute URL, or a path from the root.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parts(text, true).map_err(|why| format!("parse {}: {why}", go_quote(text)))
    }

    /// What `url.ParseRequestURI` accepts, for which a fragment is part of the path or the query.
    pub(crate) fn is_request_uri(text: &str) -> bool {
        text == "*" || Self::parts(text, false).is_ok()
    }

    fn parts(text: &str, with_fragment: bool) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let cut = rest.split_once('#').filter(|_| with_fragment);
        let (rest, fragment) = cut.unwrap_or((rest, ""));
        check_escapes(fragment)?;
        let (rest, raw_query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            source: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            raw_query: raw_query.to_owned(),
        };
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return Err("invalid URI for request".to_owned());
            }
            // Opaque, like `mailto:a@b`.
            return Ok(url);
        }
        let mut path = rest;
        if (!scheme.is_empty() || !rest.starts_with("///"))
            && let Some(after) = rest.strip_prefix("//")
        {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, tail) = after.split_at(end);
            url.host = parse_authority(authority)?;
            path = tail;
        }
        check_escapes(path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    /// Without port and brackets.
    pub(crate) fn hostname(&self) -> String {
        let host = match self.port() {
            "" => self.host.strip_suffix(':').unwrap_or(&self.host),
            port => self
                .host
                .strip_suffix(port)
                .and_then(|h| h.strip_suffix(':'))
                .unwrap_or(""),
        };
        host.strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(host)
            .to_owned()
    }

    /// Without the colon, empty if there is none.
    pub(crate) fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((before, port))
                if port.bytes().all(|b| b.is_ascii_digit())
                    && (!before.contains(':') || before.ends_with(']')) =>
            {
                port
            }
            _ => "",
        }
    }

    /// The path with everything escaped that has to be.
    pub(crate) fn escaped_path(&self) -> String {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&b);
        if self.path.bytes().all(allowed) {
            return self.path.clone();
        }
        let mut out = String::new();
        for byte in decode(&self.path, false).unwrap_or_default() {
            if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }

    /// Values by key; what does not decode is left out.
    pub(crate) fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut found: std::collections::BTreeMap<String, Vec<String>> =
            std::collections::BTreeMap::new();
        for part in self.raw_query.split('&') {
            if part.is_empty() || part.contains(';') {
                continue;
            }
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let text = |raw: &str| {
                decode(raw, true).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            };
            if let (Some(key), Some(value)) = (text(key), text(value)) {
                found.entry(key).or_default().push(value);
            }
        }
        found.into_iter().collect()
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    // A colon in the first segment of a URL without scheme.
    let first = text.split('/').next().unwrap_or_default();
    if first.contains(':') && !text.starts_with('/') {
        return Err("first path segment in URL cannot contain colon".to_owned());
    }
    Ok(("", text))
}

fn parse_authority(authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    if !user.bytes().all(fits) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user)?;
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let valid = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !valid {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    let bad = |c: char| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    if let Some(c) = host.chars().find(|c| bad(*c)) {
        return Err(format!(
            "invalid character {} in host name",
            go_quote(&c.to_string())
        ));
    }
    check_escapes(host)?;
    // Only bytes above ASCII may be escaped in a host, and anything in the zone of an IPv6 address.
    let zone = host.find("%25").filter(|_| host.starts_with('['));
    let mut rest = zone.map_or(host, |zone| &host[..zone]);
    while let Some(at) = rest.find('%') {
        let escape = rest.get(at..at + 3).unwrap_or_else(|| &rest[at..]);
        let high = escape.len() == 3 && escape.as_bytes()[1] >= b'8';
        if !high {
            return Err(format!("invalid URL escape {}", go_quote(escape)));
        }
        rest = &rest[at + 3..];
    }
    Ok(host.to_owned())
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'%' {
            continue;
        }
        let escape = &bytes[at..(at + 3).min(bytes.len())];
        if escape.len() < 3 || !escape[1..].iter().all(u8::is_ascii_hexdigit) {
            let shown = String::from_utf8_lossy(escape);
            return Err(format!("invalid URL escape {}", go_quote(&shown)));
        }
    }
    Ok(())
}

fn decode(text: &str, plus: bool) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(bytes.get(at..at + 2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'+' if plus => out.push(b' '),
            other => out.push(other),
        }
    }
    Some(out)
}

//! YAML to JSON values as `sigs.k8s.io/yaml` does it: YAML 1.1 scalars, anchors and merge keys,
//! string keys.

use std::collections::HashMap;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScanError, Span};

use super::read::{DecodeError, Decoded, Duplicates, MAX_DEPTH, PathSegment};
use super::yaml_scalar::{key_text, resolve};
use super::{go_quote, read, settle_numbers};

/// How much aliases may add, in values and bytes of text. Go bounds the ratio instead; a fixed
/// amount serves the same end, since a request is a few megabytes at most.
// Without a bound, nine lines of nested anchors ("billion laughs") expand to gigabytes.
const ALIAS_BUDGET: usize = 8 << 20;

/// Reads the first document of a YAML stream; JSON is YAML.
///
/// Keys given twice are reported as paths in `duplicates`, and in the words of the YAML decoder in
/// `strict_error`.
pub fn decode_yaml(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    // `kubectl apply --server-side` sends JSON with the content type of YAML; the JSON reader is many times faster.
    // Duplicate keys go the slow way, since YAML words them differently.
    if first == Some(&b'{')
        && let Ok(mut decoded) = read::decode(bytes)
        && decoded.duplicates.is_empty()
    {
        settle_numbers(&mut decoded.value);
        return Ok(decoded);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| DecodeError::new("yaml: invalid leading UTF-8 octet", e.valid_up_to()))?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| syntax_error(&e, text))?;
        if builder.event(event, span)? {
            break;
        }
    }
    let mut value = builder.document.unwrap_or(Value::Null);
    settle_numbers(&mut value);
    let strict_error = (!builder.repeated.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n{}", builder.repeated.join("\n")));
    Ok(Decoded {
        value,
        duplicates: builder.duplicates.found,
        strict_error,
    })
}

/// The parser's words brought to the shape of go-yaml's: the problem without its context.
fn syntax_error(error: &ScanError, text: &str) -> DecodeError {
    let info = error.info();
    let offset = error.marker().byte_offset().unwrap_or_default();
    let has = |words: &str| info.contains(words);
    let mut scanner = has("scanning") || has("quoted scalar");
    let mut at_end = has("EOF") || has("unclosed bracket");
    let problem = if at_end && text.trim_end().ends_with(['[', '{', ',', ':']) {
        "did not find expected node content".to_owned()
    } else if has("flow sequence") || has("unclosed bracket '['") {
        "did not find expected ',' or ']'".to_owned()
    } else if has("flow mapping") || has("unclosed bracket '{'") {
        "did not find expected ',' or '}'".to_owned()
    } else if has("unknown anchor") {
        let name = text
            .get(offset..)
            .unwrap_or_default()
            .trim_start_matches('*');
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        let name = &name[..end.unwrap_or(name.len())];
        // Found by the decoder, which names no line.
        return DecodeError::new(format!("yaml: unknown anchor '{name}' referenced"), offset);
    } else if has("unclosed quote") {
        let place = match text.matches('\n').count() {
            0 => String::new(),
            breaks => format!("line {}: ", breaks + 1),
        };
        return DecodeError::new(
            format!("yaml: {place}found unexpected end of stream"),
            offset,
        );
    } else if has("mapping values are not allowed") {
        scanner = true;
        "mapping values are not allowed in this context".to_owned()
    } else if has("tabs disallowed") || has("unexpected character") {
        scanner = true;
        "found character that cannot start any token".to_owned()
    } else if has("block mapping") {
        "did not find expected key".to_owned()
    } else if has("block sequence") || has("block collection") {
        "did not find expected '-' indicator".to_owned()
    } else {
        at_end = false;
        info.split_once(", ")
            .map_or(info.as_str(), |(_, problem)| problem)
            .to_owned()
    };
    // go-yaml counts lines from nought in what its parser finds and from one in what its scanner
    // finds, takes the end of the text for a line of its own, and never names the first line.
    let line = match (at_end, error.marker().line()) {
        (true, _) => text.lines().count(),
        (false, 0 | 1) => 0,
        (false, line) if scanner => line,
        (false, line) => line - 1,
    };
    let place = if line == 0 {
        String::new()
    } else {
        format!("line {line}: ")
    };
    DecodeError::new(format!("yaml: {place}{problem}"), offset)
}

/// A collection that is not complete yet.
enum Frame {
    Sequence {
        items: Vec<Value>,
        anchor: usize,
    },
    Mapping {
        map: Map<String, Value>,
        key: Option<Key>,
        anchor: usize,
    },
}

/// The key whose value comes next.
enum Key {
    Field(String),
    Merge,
}

#[derive(Default)]
struct Builder {
    stack: Vec<Frame>,
    anchors: HashMap<usize, (Value, usize)>,
    spent: usize,
    duplicates: Duplicates,
    repeated: Vec<String>,
    /// A key just read that was there before; go-yaml names the line of its value.
    again: Option<String>,
    document: Option<Value>,
}

impl Builder {
    /// Takes one event; `true` once the first document is complete.
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<bool, DecodeError> {
        let line = span.start.line();
        if event.is_node()
            && let Some(name) = self.again.take()
        {
            let key = go_quote(&name);
            self.repeated
                .push(format!("  line {line}: key {key} already set in map"));
        }
        match event {
            Event::DocumentEnd | Event::StreamEnd => return Ok(true),
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref();
                if self.wants_key() {
                    let key = if tag.is_none() && text == "<<" && is_plain(style) {
                        Key::Merge
                    } else {
                        Key::Field(key_text(&text, style, tag).map_err(|e| at(line, &e))?)
                    };
                    self.take_key(key);
                } else {
                    let value = resolve(&text, style, tag).map_err(|e| at(line, &e))?;
                    self.complete(value, anchor, line)?;
                }
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(
                    Frame::Sequence {
                        items: Vec::new(),
                        anchor,
                    },
                    line,
                )?;
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(
                    Frame::Mapping {
                        map: Map::new(),
                        key: None,
                        anchor,
                    },
                    line,
                )?;
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Frame::Sequence { items, anchor }) => {
                    self.complete(Value::Array(items), anchor, line)?;
                }
                Some(Frame::Mapping { map, anchor, .. }) => {
                    self.complete(Value::Object(map), anchor, line)?;
                }
                None => return Err(at(line, "did not find expected node content")),
            },
            Event::Alias(id) => {
                let Some((value, weight)) = self.anchors.get(&id) else {
                    return Err(at(line, "unknown anchor referenced"));
                };
                let (value, weight) = (value.clone(), *weight);
                self.spend(weight, line)?;
                if self.wants_key() {
                    let Value::String(text) = value else {
                        return Err(at(line, "invalid map key"));
                    };
                    self.take_key(Key::Field(text));
                } else {
                    self.complete(value, 0, line)?;
                }
            }
            _ => {}
        }
        Ok(false)
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame::Mapping { key: None, .. }))
    }

    fn take_key(&mut self, taken: Key) {
        if let (Key::Field(name), Some(Frame::Mapping { map, .. })) = (&taken, self.stack.last())
            && map.contains_key(name)
        {
            self.again = Some(name.clone());
            self.set_path();
            self.duplicates.note(name);
        }
        if let Some(Frame::Mapping { key, .. }) = self.stack.last_mut() {
            *key = Some(taken);
        }
    }

    /// Where the innermost open collection is. Only called for findings, which are few.
    fn set_path(&mut self) {
        let below = self.stack.len().saturating_sub(1);
        self.duplicates.path = self.stack[..below]
            .iter()
            .filter_map(|frame| match frame {
                Frame::Sequence { items, .. } => Some(PathSegment::Index(items.len())),
                Frame::Mapping {
                    key: Some(Key::Field(name)),
                    ..
                } => Some(PathSegment::Key(name.clone())),
                Frame::Mapping { .. } => None,
            })
            .collect();
    }

    fn open(&mut self, frame: Frame, line: usize) -> Result<(), DecodeError> {
        if self.wants_key() {
            return Err(at(line, "invalid map key"));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(at(line, "exceeded max depth"));
        }
        self.stack.push(frame);
        Ok(())
    }

    fn spend(&mut self, weight: usize, line: usize) -> Result<(), DecodeError> {
        self.spent = self.spent.saturating_add(weight);
        if self.spent > ALIAS_BUDGET {
            return Err(at(line, "document contains excessive aliasing"));
        }
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn complete(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), DecodeError> {
        if anchor != 0 {
            let weight = weigh(&value);
            self.spend(weight, line)?;
            self.anchors.insert(anchor, (value.clone(), weight));
        }
        match self.stack.last_mut() {
            None => self.document = Some(value),
            Some(Frame::Sequence { items, .. }) => items.push(value),
            Some(Frame::Mapping { map, key, .. }) => match key.take() {
                Some(Key::Field(name)) => {
                    map.insert(name, value);
                }
                Some(Key::Merge) => merge(map, value, line)?,
                None => return Err(at(line, "invalid map key")),
            },
        }
        Ok(())
    }
}

/// A merge key brings in the fields of a mapping, or of several with the first one winning.
fn merge(map: &mut Map<String, Value>, value: Value, line: usize) -> Result<(), DecodeError> {
    match value {
        Value::Object(fields) => {
            map.extend(fields);
            Ok(())
        }
        Value::Array(items) => {
            // In reverse, so that the first mapping is written last and wins.
            for item in items.into_iter().rev() {
                let Value::Object(fields) = item else {
                    return Err(at(
                        line,
                        "map merge requires map or sequence of maps as the value",
                    ));
                };
                map.extend(fields);
            }
            Ok(())
        }
        _ => Err(at(
            line,
            "map merge requires map or sequence of maps as the value",
        )),
    }
}

fn is_plain(style: serde_saphyr::granit_parser::ScalarStyle) -> bool {
    style == serde_saphyr::granit_parser::ScalarStyle::Plain
}

/// An error of the decoder, which go-yaml reports without a line; what JSON cannot hold is found
/// later and by another decoder.
fn at(line: usize, problem: &str) -> DecodeError {
    let prefix = if problem.starts_with("json: ") {
        ""
    } else {
        "yaml: "
    };
    DecodeError::new(format!("{prefix}{problem}"), line)
}

/// Values and text bytes in `value`.
fn weigh(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len(),
        Value::Array(items) => 1 + items.iter().map(weigh).sum::<usize>(),
        Value::Object(map) => 1 + map.iter().map(|(k, v)| k.len() + weigh(v)).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

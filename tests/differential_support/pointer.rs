//! Finding a part of a document.

use serde_json::Value;

/// Looks up a JSON pointer. A segment `[key=value]` is the first item of a list whose (dotted) key
/// has that string.
pub(crate) fn look<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    segments(pointer)
        .into_iter()
        .try_fold(value, |value, segment| step(value, &segment))
}

fn step<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    let filter = segment
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(filter) = filter {
        let (key, wanted) = filter.split_once('=')?;
        return value.as_array()?.iter().find(|item| {
            key.split('.')
                .try_fold(*item, |item, part| item.get(part))
                .and_then(Value::as_str)
                == Some(wanted)
        });
    }
    let segment = segment.replace("~1", "/").replace("~0", "~");
    match value {
        Value::Object(fields) => fields.get(&segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Splits at slashes that are not inside brackets.
fn segments(pointer: &str) -> Vec<String> {
    let Some(rest) = pointer.strip_prefix('/') else {
        return Vec::new();
    };
    let mut segments = Vec::new();
    let mut current = String::new();
    let mut inside = false;
    for character in rest.chars() {
        match character {
            '[' if current.is_empty() => inside = true,
            ']' => inside = false,
            '/' if !inside => {
                segments.push(std::mem::take(&mut current));
                continue;
            }
            _ => {}
        }
        current.push(character);
    }
    segments.push(current);
    segments
}

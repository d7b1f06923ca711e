//! Content negotiation of responses and bodies (`apiserver/pkg/endpoints/handlers/negotiation`).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use machinery::status::{Details, Status};

/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";
/// Media type of YAML.
pub(crate) const YAML: &str = "application/yaml";
/// Media type of the Kubernetes protobuf envelope.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Media types of object bodies.
pub(crate) const OBJECT_BODIES: [&str; 3] = [JSON, YAML, PROTOBUF];

/// Encoding of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The part of an object that a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The whole object.
    Object,
    /// Type and metadata of one object.
    PartialMetadata,
    /// Type and metadata of the objects of a list.
    PartialMetadataList,
    /// A table for people.
    Table,
}

/// The negotiated representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Representation {
    /// Its encoding.
    pub encoding: Encoding,
    /// Its content.
    pub shape: Shape,
    /// `apiVersion` of tables and partial metadata.
    pub version: &'static str,
}

impl Representation {
    /// Plain JSON of the whole object.
    pub(crate) const PLAIN: Self = Self {
        encoding: Encoding::Json,
        shape: Shape::Object,
        version: "meta.k8s.io/v1",
    };
}

/// One alternative of an `Accept` header.
#[derive(Debug, Clone)]
pub(crate) struct MediaRange {
    /// `type/subtype`, lower case.
    pub media_type: String,
    /// Parameters in order.
    pub parameters: Vec<(String, String)>,
}

impl MediaRange {
    /// Value of a parameter, empty when absent.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value.as_str())
    }
}

/// The alternatives of an `Accept` header, best first. As in `goautoneg`, a higher `q` goes first;
/// equal ones keep their order.
pub(crate) fn accept_ranges(headers: &HeaderMap) -> Vec<MediaRange> {
    let mut ranges: Vec<(u32, MediaRange)> = Vec::new();
    for value in headers.get_all(ACCEPT) {
        let Ok(text) = value.to_str() else { continue };
        for part in text.split(',') {
            let range = media_range(part);
            if range.media_type.is_empty() {
                continue;
            }
            let quality = range
                .parameter("q")
                .parse::<f32>()
                .unwrap_or(1.0)
                .clamp(0.0, 1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped to 0..=1 above"
            )]
            ranges.push(((quality * 1000.0) as u32, range));
        }
    }
    // The sort is stable, which is what keeps alternatives of equal quality in their order.
    ranges.sort_by_key(|(quality, _)| std::cmp::Reverse(*quality));
    ranges.into_iter().map(|(_, range)| range).collect()
}

fn media_range(text: &str) -> MediaRange {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
    let parameters = parts
        .filter_map(|part| part.split_once('='))
        .map(|(key, value)| {
            (
                key.trim().to_ascii_lowercase(),
                value.trim().trim_matches('"').to_owned(),
            )
        })
        .collect();
    MediaRange {
        media_type,
        parameters,
    }
}

/// Negotiates a representation. The routes of built-in groups (`routed`) negotiate separately, with
/// their own error.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    routed: bool,
    watch: bool,
) -> Result<Representation, Status> {
    let ranges = accept_ranges(headers);
    if ranges.is_empty() {
        return Ok(Representation::PLAIN);
    }
    for range in &ranges {
        let encoding = match range.media_type.as_str() {
            "*/*" | "application/*" | JSON => Encoding::Json,
            YAML => Encoding::Yaml,
            // Protobuf is accepted for bodies only. Clients that prefer it name JSON as the second
            // choice, and get that.
            _ => continue,
        };
        let known_group = matches!(range.parameter("g"), "" | "meta.k8s.io");
        let shape = match (range.parameter("as"), range.parameter("v")) {
            ("", _) => Shape::Object,
            ("Table", "v1" | "v1beta1") if known_group => Shape::Table,
            ("PartialObjectMetadata", "v1" | "v1beta1") if known_group => Shape::PartialMetadata,
            ("PartialObjectMetadataList", "v1" | "v1beta1") if known_group => {
                Shape::PartialMetadataList
            }
            _ => continue,
        };
        let version = if range.parameter("v") == "v1beta1" {
            "meta.k8s.io/v1beta1"
        } else {
            "meta.k8s.io/v1"
        };
        return Ok(Representation {
            encoding,
            shape,
            version,
        });
    }
    Err(if routed {
        no_representation(watch)
    } else {
        not_acceptable()
    })
}

/// The 406 of handlers that decode bodies themselves.
pub(crate) fn not_acceptable() -> Status {
    let known = OBJECT_BODIES.join(", ");
    Status::not_acceptable(format!(
        "only the following media types are accepted: {known}"
    ))
}

/// The 406 of a route.
fn no_representation(watch: bool) -> Status {
    let mut known = OBJECT_BODIES.to_vec();
    if watch {
        known.extend([
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ]);
    }
    let known = known.join(", ");
    let message = format!("406: Not Acceptable\n\nAvailable representations: {known}");
    Status::not_acceptable(message).with_details(Details::default())
}

/// Media type of a body without its parameters; absent means JSON.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if media_type.is_empty() {
        JSON.to_owned()
    } else {
        media_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &'static str) -> Result<Representation, Status> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, http::HeaderValue::from_static(accept));
        negotiate(&headers, false, false)
    }

    #[test]
    fn the_first_acceptable_alternative_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(negotiated(kubectl).unwrap().shape, Shape::Table);
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiated(typed).unwrap(), Representation::PLAIN);
        assert_eq!(negotiated("*/*").unwrap(), Representation::PLAIN);
        assert_eq!(
            negotiated("application/yaml").unwrap().encoding,
            Encoding::Yaml
        );
    }

    #[test]
    fn unacceptable_media_types_are_406_with_the_supported_ones() {
        let status = negotiated("text/html").unwrap_err();
        assert_eq!(status.code, 406);
        assert_eq!(
            status.message,
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf"
        );
    }
}

//! The formats of the `format` library (`apiserver/pkg/cel/library/format.go`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::time;
use super::urls::Url;
use crate::{names, schema};

/// A named format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `dns1123Label`, also as a prefix
    Dns1123Label(bool),
    /// `dns1123Subdomain`, also as a prefix
    Dns1123Subdomain(bool),
    /// `dns1035Label`, also as a prefix
    Dns1035Label(bool),
    /// `qualifiedName`
    QualifiedName,
    /// `labelValue`
    LabelValue,
    /// `uri`
    Uri,
    /// `uuid`
    Uuid,
    /// `byte`
    Byte,
    /// `date`
    Date,
    /// `datetime`
    DateTime,
}

impl Format {
    /// The format of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dns1123Label" => Self::Dns1123Label(false),
            "dns1123LabelPrefix" => Self::Dns1123Label(true),
            "dns1123Subdomain" => Self::Dns1123Subdomain(false),
            "dns1123SubdomainPrefix" => Self::Dns1123Subdomain(true),
            "dns1035Label" => Self::Dns1035Label(false),
            "dns1035LabelPrefix" => Self::Dns1035Label(true),
            "qualifiedName" => Self::QualifiedName,
            "labelValue" => Self::LabelValue,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            _ => return None,
        })
    }

    /// The name upstream gives to the value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dns1123Label(false) => "DNS1123Label",
            Self::Dns1123Label(true) => "DNS1123LabelPrefix",
            Self::Dns1123Subdomain(false) => "DNS1123Subdomain",
            Self::Dns1123Subdomain(true) => "DNS1123SubdomainPrefix",
            Self::Dns1035Label(false) => "DNS1035Label",
            Self::Dns1035Label(true) => "DNS1035LabelPrefix",
            Self::QualifiedName => "QualifiedName",
            Self::LabelValue => "LabelValue",
            Self::Uri => "URI",
            Self::Uuid => "uuid",
            Self::Byte => "byte",
            Self::Date => "date",
            Self::DateTime => "datetime",
        }
    }

    /// Size of the pattern that upstream charges for.
    pub(crate) fn regex_size(self) -> u64 {
        match self {
            Self::Dns1123Label(_) | Self::Dns1035Label(_) => 30,
            Self::Dns1123Subdomain(_) | Self::QualifiedName => 60,
            Self::LabelValue => 40,
            Self::Uri => 1_600,
            Self::Uuid => 90,
            Self::Byte => 80,
            Self::Date | Self::DateTime => 150,
        }
    }

    /// The errors of a value; empty if it is valid.
    pub(crate) fn validate(self, text: &str) -> Vec<String> {
        let unless = |valid: bool, message: &str| {
            if valid {
                Vec::new()
            } else {
                vec![message.to_owned()]
            }
        };
        match self {
            Self::Dns1123Label(prefix) => names::name_is_dns_label(text, prefix),
            Self::Dns1123Subdomain(prefix) => names::name_is_dns_subdomain(text, prefix),
            Self::Dns1035Label(prefix) => names::name_is_dns1035_label(text, prefix),
            Self::QualifiedName => names::is_qualified_name(text),
            Self::LabelValue => names::is_valid_label_value(text),
            Self::Uri => Url::parse(text).err().into_iter().collect(),
            Self::Uuid => unless(schema::is_uuid(text), "does not match the UUID format"),
            Self::Byte => unless(STANDARD.decode(text).is_ok(), "invalid base64"),
            Self::Date => unless(time::parse_date(text).is_some(), "invalid date"),
            Self::DateTime => unless(
                time::parse_openapi_timestamp(text).is_some(),
                "invalid datetime",
            ),
        }
    }
}

//! The built-in types: one table of facts that drives decoding, merging and documentation.
//!
//! `tables/*.types` lists every served type, one line a field:
//!
//! ```text
//! package core/v1 group= version=v1 model=io.k8s.api.core.v1
//! kind Pod                      a type with apiVersion and kind; `type` is one without
//!   ~ meta/v1.TypeMeta 0        embedded: flattened in JSON, a message of its own in protobuf
//!   spec PodSpec 2              JSON name, type, protobuf field number, facts
//! name Protocol string enum=SCTP,TCP,UDP
//! ```
//!
//! Facts of a field are words behind the number:
//!
//! | word | meaning |
//! |---|---|
//! | `req` | written even when empty, and required of clients |
//! | `always` | written even when empty, optional for clients |
//! | `omitzero` | left out when zero, although its type is a struct |
//! | `required` | required of clients, left out when empty |
//! | `list=atomic`, `list=set`, `list=map:<keys>` | how server-side apply merges the list |
//! | `patch=<strategy>[:<key>]` | how a strategic merge patch merges the field |
//! | `atomic`, `granular` | the map or struct is replaced as a whole, or merged although its type is atomic |
//! | `default=<json>` | the documented default |
//!
//! A pointer in front of a type means that an empty value differs from an absent one. Without
//! `req` or `always` an empty string, number, list or map is not written; a struct always is.

mod json;
mod merge;
mod openapi;
mod protobuf;
mod scalars;
mod settle;
mod strategic;
mod table;

pub(crate) use json::decode_json;
pub(crate) use merge::{merge_schema, merge_type};
pub(crate) use openapi::{
    DocumentResource, openapi_common_models, openapi_document, openapi_paths,
};
pub(crate) use protobuf::{decode_protobuf, unknown_protobuf_kind};
pub(crate) use settle::settle;
pub(crate) use strategic::Strategic;
pub(crate) use table::{TypeId, table};

//! Objects and lists in the requested form.

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::Timestamp;
use machinery::json;
use machinery::meta;
use machinery::status::Status;
use machinery::table::{IncludeObject, Row, Table, partial_object_metadata};
use serde_json::Value;

use super::context::Context;
use crate::negotiate::{Representation, Shape};
use crate::resource::Resource;
use crate::respond::{self, Body};

/// Reads `includeObject`.
pub(crate) fn include_object(context: &Context) -> Result<IncludeObject, Status> {
    let text = context.query.text("includeObject");
    IncludeObject::parse(text).ok_or_else(|| {
        Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be \
             'Metadata', 'Object', 'None', or empty",
            json::go_quote(text)
        ))
    })
}

/// A table with one row for each object.
pub(crate) fn table_of(
    resource: &Resource,
    objects: &[Value],
    include: IncludeObject,
    with_columns: bool,
    now: Timestamp,
) -> Table {
    let rows = objects
        .iter()
        .map(|object| Row::new(resource.strategy.cells(object, now), object, include))
        .collect();
    let columns = if with_columns {
        resource.strategy.columns()
    } else {
        Vec::new()
    };
    Table {
        columns,
        rows,
        ..Table::default()
    }
}

/// An object in the form of a watch event or response.
pub(crate) fn shaped(
    context: &Context,
    resource: &Resource,
    object: Value,
    shape: Shape,
) -> Result<Value, Status> {
    match shape {
        Shape::Object => Ok(object),
        Shape::PartialMetadata => Ok(partial_object_metadata(&object)),
        Shape::PartialMetadataList => Err(Status::plain_500("content is not a list")),
        Shape::Table => {
            let include = include_object(context)?;
            let resource_version = meta::resource_version(&object).to_owned();
            let table = table_of(resource, &[object], include, true, context.now);
            Ok(Table {
                resource_version,
                ..table
            }
            .into_value())
        }
    }
}

/// The Go type in negotiation errors.
pub(crate) fn go_list_type(resource: &Resource) -> String {
    if resource.custom.is_some() {
        return "*unstructured.UnstructuredList".to_owned();
    }
    let package = match resource.info.gvk.group.split('.').next() {
        None | Some("") => "core",
        Some(name) => name,
    };
    format!("*{package}.{}", resource.info.list_kind)
}

/// Sets the requested version of tables and partial metadata.
pub(crate) fn set_version(value: &mut Value, representation: Representation) {
    if representation.shape == Shape::Object || representation.version == "meta.k8s.io/v1" {
        return;
    }
    value["apiVersion"] = representation.version.into();
    let rows = value.get_mut("rows").and_then(Value::as_array_mut);
    for object in rows
        .into_iter()
        .flatten()
        .filter_map(|row| row.get_mut("object"))
    {
        if object["kind"] == "PartialObjectMetadata" {
            object["apiVersion"] = representation.version.into();
        }
    }
}

/// Responds with an object.
pub(crate) fn object_response(
    context: &Context,
    resource: &Resource,
    code: StatusCode,
    object: Value,
) -> Result<Response<Body>, Status> {
    let representation = context.representation(resource)?;
    respond_shaped(context, resource, code, object, representation)
}

/// Responds with an object in a negotiated representation.
pub(crate) fn respond_shaped(
    context: &Context,
    resource: &Resource,
    code: StatusCode,
    object: Value,
    representation: Representation,
) -> Result<Response<Body>, Status> {
    let mut shaped = shaped(context, resource, object, representation.shape)?;
    set_version(&mut shaped, representation);
    Ok(respond::value(code, &shaped, context.form(representation)))
}

/// Responds with stored bytes when they can be sent unchanged.
pub(crate) fn stored_response(
    context: &Context,
    resource: &Resource,
    entry: &crate::store::Entry,
) -> Result<Response<Body>, Status> {
    let representation = context.representation(resource)?;
    if let Some(status) = Resource::damage(entry) {
        return Err(status);
    }
    if representation.shape == Shape::Object && resource.is_verbatim(entry) {
        let bytes: Bytes = entry.value.clone();
        return Ok(respond::json_bytes(
            StatusCode::OK,
            bytes,
            context.form(representation),
        ));
    }
    respond_shaped(
        context,
        resource,
        StatusCode::OK,
        resource.read(entry)?,
        representation,
    )
}

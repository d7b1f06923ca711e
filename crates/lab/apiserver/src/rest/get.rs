//! Reading one object.

use http::Response;
use machinery::status::Status;

use super::context::Context;
use super::list::{parse_version, wait_for_version};
use super::represent::stored_response;
use crate::resource::Resource;
use crate::respond::Body;

/// GET of an object, or of its status, which returns the whole object as well.
pub(crate) async fn get(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Response<Body>, Status> {
    let version = context.query.text("resourceVersion");
    // A list responds with 400 to this; a get has no specific error for it.
    parse_version(version).map_err(|status| {
        let message = status
            .message
            .trim_start_matches("invalid resource version: ");
        Status::plain_500(message)
    })?;
    wait_for_version(context, version).await?;
    let entry = context.entry(resource, namespace, name)?;
    stored_response(context, resource, &entry)
}

//! Reading one object.

use http::Response;
use machinery::status::Status;

use super::context::Context;
use super::list::wait_for_version;
use super::represent::stored_response;
use crate::resource::Resource;
use crate::respond::Body;

/// GET of an object, or of its status, which is the whole object as well.
pub(crate) async fn get(
    context: &Context,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Response<Body>, Status> {
    wait_for_version(context, context.query.text("resourceVersion")).await?;
    let entry = context
        .state
        .store
        .get(&resource.key(namespace, name))
        .ok_or_else(|| resource.not_found(name))?;
    stored_response(context, resource, &entry)
}

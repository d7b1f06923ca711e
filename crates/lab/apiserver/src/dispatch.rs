//! Routing of requests to handlers.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use machinery::gvk::GroupResource;
use machinery::status::Status;

use crate::kind::Part;
use crate::negotiate::Representation;
use crate::request::{ResourcePath, Verb};
use crate::resource::Resource;
use crate::respond::{self, Body};
use crate::rest::{self, Content, Context};
use crate::{discovery, health, openapi, subresources, virtual_kinds};

/// Handles an authorized request.
pub(crate) async fn dispatch(
    context: &Context,
    method: &Method,
    content: &Content,
) -> Result<Response<Body>, Status> {
    match &context.info.resource {
        Some(path) => resource(context, method, path, content).await,
        None => document(context, method),
    }
}

/// Non-resource paths.
fn document(context: &Context, method: &Method) -> Result<Response<Body>, Status> {
    let path = context.info.path.trim_end_matches('/');
    let form = context.form(Representation::PLAIN);
    if let Some(response) = health::answer(context, path) {
        return Ok(response);
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Ok(respond::page_not_found());
    }
    let snapshot = context.state.registry.snapshot();
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let response = match segments.as_slice() {
        ["version"] => Some(health::version(context)),
        ["metrics"] => Some(health::metrics(context)),
        ["api"] => Some(discovery::core(
            &snapshot,
            &context.headers,
            form,
            &context.state.advertised,
        )?),
        ["apis"] => Some(discovery::groups(&snapshot, &context.headers, form)?),
        ["api", version] => {
            discovery::check_plain(&context.headers)?;
            discovery::resources(&snapshot, "", version, form)
        }
        ["apis", group] => {
            discovery::check_plain(&context.headers)?;
            discovery::group(&snapshot, group, form)
        }
        ["apis", group, version] => {
            discovery::check_plain(&context.headers)?;
            discovery::resources(&snapshot, group, version, form)
        }
        ["openapi", "v2"] => Some(openapi::version_2(context, form)),
        ["openapi", "v3"] => Some(openapi::index(&snapshot, form)),
        ["openapi", "v3", rest @ ..] => {
            let found = openapi::document(context, &snapshot, &rest.join("/"), form);
            Some(found.unwrap_or_else(respond::empty_not_found))
        }
        [""] => Some(health::paths(&snapshot, form)),
        _ => None,
    };
    Ok(response.unwrap_or_else(respond::page_not_found))
}

/// Resource paths.
async fn resource(
    context: &Context,
    method: &Method,
    path: &ResourcePath,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let snapshot = context.state.registry.snapshot();
    let Some(resource) = snapshot
        .find(&path.group, &path.version, &path.resource)
        .cloned()
    else {
        if let Some(review) = subresources::review(&path.group, &path.version, &path.resource) {
            return virtual_kinds::review(context, review, path, content).await;
        }
        // A known group returns its own error; for others there is none.
        let known = snapshot
            .group(&path.group)
            .is_some_and(|group| group.builtin);
        return if known {
            Err(Status::unknown_resource())
        } else {
            Ok(respond::page_not_found())
        };
    };
    if let Some(warning) = &resource.info.deprecation {
        context.warn(warning.as_str());
    }
    if *method == Method::HEAD && resource.custom.is_none() {
        return Err(no_such_method());
    }
    let scoped_wrong = if resource.info.namespaced {
        // Only whole collections may be read without a namespace.
        path.namespace.is_empty() && !matches!(context.info.verb, Verb::List | Verb::Watch)
            || (path.namespace.is_empty() && !path.name.is_empty())
    } else {
        !path.namespace.is_empty()
    };
    if scoped_wrong {
        return not_here(context, &resource);
    }
    if path.subresource.is_empty() {
        whole(context, &resource, path, content).await
    } else {
        part(context, &resource, path, content).await
    }
}

/// The error for a path with the wrong scope for its resource.
fn not_here(context: &Context, resource: &Resource) -> Result<Response<Body>, Status> {
    if context.info.verb == Verb::Create && resource.info.namespaced {
        return Err(method_not_allowed(context, resource));
    }
    if resource.custom.is_some() {
        return Ok(respond::page_not_found());
    }
    Err(Status::unknown_resource())
}

/// The 405 of a built-in resource: it has no route for the method.
pub(crate) fn no_such_method() -> Status {
    let message = "the server does not allow this method on the requested resource";
    Status::failure(405, "MethodNotAllowed", message)
        .with_details(machinery::status::Details::default())
}

fn method_not_allowed(context: &Context, resource: &Resource) -> Status {
    if resource.custom.is_none() {
        return no_such_method();
    }
    Status::method_not_supported(&resource.group_resource(), context.info.verb.as_str())
}

async fn whole(
    context: &Context,
    resource: &Arc<Resource>,
    path: &ResourcePath,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let (namespace, name) = (path.namespace.as_str(), path.name.as_str());
    match context.info.verb {
        Verb::Get => rest::get(context, resource, namespace, name).await,
        Verb::List => rest::list(context, resource, namespace).await,
        Verb::Watch => rest::watch(context, resource, namespace, name).await,
        // For custom resources upstream's handler ignores a name in the path of a POST; built-in
        // kinds have no such route.
        Verb::Create if name.is_empty() || resource.custom.is_some() => {
            rest::create(context, resource, namespace, content).await
        }
        Verb::Update | Verb::Patch if name.is_empty() => {
            Err(collection_needs_name(context, resource))
        }
        Verb::Update => rest::put(context, resource, namespace, name, Part::Main, content).await,
        Verb::Patch => rest::patch(context, resource, namespace, name, Part::Main, content).await,
        Verb::Delete => rest::delete(context, resource, namespace, name, content).await,
        // Discovery is the one place that knows which kinds lack it, so that what is listed and
        // what is served cannot differ.
        Verb::DeleteCollection if !discovery::verbs(resource).contains(&"deletecollection") => {
            Err(method_not_allowed(context, resource))
        }
        Verb::DeleteCollection => {
            rest::delete_collection(context, resource, namespace, content).await
        }

        Verb::Create | Verb::Other => Err(method_not_allowed(context, resource)),
    }
}

fn collection_needs_name(context: &Context, resource: &Resource) -> Status {
    if resource.custom.is_some() {
        return Status::bad_request("name must be provided");
    }
    method_not_allowed(context, resource)
}

async fn part(
    context: &Context,
    resource: &Arc<Resource>,
    path: &ResourcePath,
    content: &Content,
) -> Result<Response<Body>, Status> {
    let (namespace, name) = (path.namespace.as_str(), path.name.as_str());
    let known = subresources::of(resource)
        .into_iter()
        .find(|sub| sub.name == path.subresource);
    let Some(subresource) = known.filter(|_| path.rest.is_empty()) else {
        // Custom resources report the object, built-in groups the path.
        return Err(match resource.custom {
            Some(_) => resource.not_found(name),
            None => Status::unknown_resource(),
        });
    };
    let verb = context.info.verb;
    if !subresource.verbs.contains(&verb.as_str()) {
        let named = GroupResource::new(
            &resource.info.gvk.group,
            &format!("{}/{}", resource.info.plural, subresource.name),
        );
        return Err(match verb {
            Verb::Other => method_not_allowed(context, resource),
            _ => Status::method_not_supported(&named, verb.as_str()),
        });
    }
    let part = match subresource.name {
        "status" => Part::Status,
        "scale" => {
            let paths = resource
                .info
                .scale
                .as_ref()
                .ok_or_else(Status::unknown_resource)?;
            return rest::scale(context, resource, paths, namespace, name, content).await;
        }
        "binding" | "eviction" | "token" => {
            return virtual_kinds::create_below(context, resource, path, content).await;
        }
        other => Part::Other(other),
    };
    match verb {
        Verb::Get => rest::get(context, resource, namespace, name).await,
        Verb::Update => rest::put(context, resource, namespace, name, part, content).await,
        Verb::Patch => rest::patch(context, resource, namespace, name, part, content).await,
        _ => Err(method_not_allowed(context, resource)),
    }
}

/// A plain text response.
pub(crate) fn plain_text(code: StatusCode, text: String) -> Response<Body> {
    let form = respond::Form {
        encoding: crate::negotiate::Encoding::Json,
        pretty: false,
        gzip: false,
    };
    respond::bytes(code, "text/plain; charset=utf-8", text.into(), form)
}

//! Authentication reviews.

pub(super) mod access;

use machinery::status::Status;
use machinery::time::format_time;
use serde_json::{Value, json};

use crate::auth::UserInfo;
use crate::builtin::value::Read as _;
use crate::rest::Context;

/// A user in the form of the authentication API.
fn user_object(user: &UserInfo) -> Value {
    let mut object = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        object["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        object["extra"] = json!(user.extra);
    }
    object
}

/// TokenReview: the user of a token.
pub(super) fn token(context: &Context, mut review: Value) -> Result<Value, Status> {
    let token = review.text("spec.token");
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = review.strings("spec.audiences");
    let state = &context.state;
    review["status"] =
        match state
            .authenticator
            .by_token(&state.store, token, &audiences, context.now)
        {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user_object(&user), "audiences": audiences})
            }
            Err(why) => json!({"user": {}, "error": why}),
        };
    Ok(review)
}

/// SelfSubjectReview: the user of the request. Its body is ignored.
pub(super) fn own_identity(context: &Context) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": format_time(context.now)},
        "status": {"userInfo": user_object(&context.user)},
    })
}

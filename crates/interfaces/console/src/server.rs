//! The routes.

use std::net::{IpAddr, Ipv4Addr};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use http::request::Parts;
use serving::Incoming;
use tower::ServiceExt as _;

use crate::error::Problem;
use crate::layout::Theme;
use crate::pages::{PAGES, sign_in};
use crate::visitor::Fields;
use crate::{Console, assets, cookies, guard, live, resume};

/// Size limit of request bodies: forms are small.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// All routes.
pub(crate) fn router(console: Console) -> Router {
    let mut router = Router::new()
        .merge(sign_in::routes())
        .route("/theme", post(theme))
        .route("/live", get(live::live))
        .route("/assets/{edition}/{name}", get(assets::asset));
    for page in PAGES {
        router = router.merge((page.routes)());
    }
    router
        .fallback(async || Problem::missing("There is no such page."))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(console.clone(), resume::resume))
        // Layers run from the last to the first: the guard runs before any cookie or body is read.
        .layer(from_fn_with_state(console.clone(), guard::guard))
        .with_state(console)
}

/// Answers one request.
pub(crate) async fn answer(router: Router, request: http::Request<Incoming>) -> Response {
    match router.oneshot(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Stores the theme in a cookie. It needs no session, since it belongs to the browser.
async fn theme(request: Request) -> Result<Response, Problem> {
    let fields = Fields::unchecked(request).await?;
    let theme = Theme::named(fields.get("theme").unwrap_or_default());
    let mut response = Redirect::to(local(fields.get("next"))).into_response();
    let cookie = format!(
        "{}={}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict",
        Theme::COOKIE,
        theme.name()
    );
    cookies::append(&mut response, &cookie)?;
    Ok(response)
}

/// A path on this console; any other URL becomes the first page (open redirects).
pub(crate) fn local(path: Option<&str>) -> &str {
    path.filter(|path| path.starts_with('/') && !path.starts_with("//") && !path.contains('\\'))
        .filter(|path| path.chars().all(|c| c.is_ascii_graphic()))
        .unwrap_or("/")
}

/// The client address, as far as it is known.
pub(crate) fn peer(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<serving::PeerAddress>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip())
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn redirects_stay_on_the_console() {
        for (path, expected) in [
            ("/governance?view=split", "/governance?view=split"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/a\r\nb", "/"),
            ("", "/"),
        ] {
            assert_eq!(local(Some(path)), expected, "{path}");
        }
        assert_eq!(local(None), "/");
    }
}

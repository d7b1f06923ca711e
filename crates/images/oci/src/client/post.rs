//! Posting a document to a web server, such as a notification.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;

use super::refusal::refusal;
use super::{Client, Inner};
use crate::auth;
use crate::error::{Cause, Operation};
use crate::transport::Call;
use crate::trust::Tls;

/// A document and where to post it. The URL may be a secret; no error quotes it.
#[derive(Clone)]
pub struct Post {
    /// The URL.
    pub url: String,
    /// The media type of the body.
    pub media_type: &'static str,
    /// Additional headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: Bytes,
    /// CA certificates to trust besides the usual ones.
    pub authorities: Tls,
}

impl Client {
    /// Posts a document. Any response but a success is an error; redirects are not followed, and nothing is retried.
    pub fn post(&self, post: Post) -> BoxFuture<'_, Result<(), Cause>> {
        async move { self.inner.post(post).await }.boxed()
    }
}

impl Inner {
    async fn post(&self, post: Post) -> Result<(), Cause> {
        let url = Url::parse(post.url.trim()).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            let expected = "the URL is not one: http://HOST or https://HOST is expected";
            return Err(Cause::Invalid(expected.to_owned()));
        };
        let host = auth::origin(&url);
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, self.agent()?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(post.media_type));
        headers.extend(post.headers);
        let answer = self
            .transport
            .send(&Call {
                operation: Operation::Post,
                method: Method::POST,
                url,
                headers,
                body: post.body,
                tls: &self.transport.tls(&host).and(Some(&post.authorities)),
                verify: self.transport.network().routes.verifies(&host),
                check: &|_| Ok(()),
            })
            .await?;
        if answer.parts.status.is_success() {
            return Ok(());
        }
        Err(refusal(answer, None, None).await)
    }
}

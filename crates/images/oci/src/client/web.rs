//! Files on web servers: conditional requests, and streams that resume where they break off.
//!
//! A file has no digest to request it by, and may change while it is read: data read after an
//! interruption has to belong to the version it began with, or reading fails.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_RANGE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, LAST_MODIFIED, RANGE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use platform::Address;
use tokio::time::sleep;
use url::Url;

use super::blob::{PROGRESS, read_range, skip};
use super::refusal::refusal;
use super::{BlobStream, Client, Inner};
use crate::auth;
use crate::credentials::{Credential, CredentialId, Keyring};
use crate::error::{Cause, Error, Operation};
use crate::secret::Secret;
use crate::transport::{Answer, Call, sensitive};
use crate::trust::Tls;

/// Upper bound of additional headers.
const MAX_HEADERS: usize = 64;

/// Headers users cannot set: they would change the meaning of the request.
const RESERVED_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "range",
    "transfer-encoding",
];

/// A file on a web server, and the headers to request it with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebFile {
    /// The URL of the file.
    pub address: Address,
    /// Additional headers, sent to this host alone.
    pub headers: Headers,
}

/// Additional headers. They may be secrets, and are redacted in `Debug`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Parses `Name: value` lines, as in CDI's `extraHeaders`.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut headers = Vec::new();
        for line in lines {
            let parts = line.split_once(':').and_then(|(name, value)| {
                let name: HeaderName = name.trim().parse().ok()?;
                let mut value: HeaderValue = value.trim().parse().ok()?;
                value.set_sensitive(true);
                Some((name, value))
            });
            let Some((name, value)) = parts else {
                // Do not quote the line: it may contain a secret.
                return Err("a header is malformed; `Name: value` is expected".to_owned());
            };
            if RESERVED_HEADERS.contains(&name.as_str()) {
                return Err(format!(
                    "header {name} cannot be set; {} are set as they have to be",
                    RESERVED_HEADERS.join(", ")
                ));
            }
            headers.push((name, value));
        }
        if headers.len() > MAX_HEADERS {
            return Err(format!(
                "there are {} headers; up to {MAX_HEADERS} are accepted",
                headers.len()
            ));
        }
        Ok(Self(headers))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        f.debug_list().entries(names).finish()
    }
}

/// The validators of a file, which distinguish its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileVersion {
    /// The entity tag.
    pub etag: Option<String>,
    /// `Last-Modified`, as the server writes it.
    pub modified: Option<String>,
    /// The size in bytes.
    pub length: Option<u64>,
    /// Whether the request was redirected to another host, which may be one of several mirrors.
    pub moved: bool,
}

impl FileVersion {
    fn of(answer: &Answer, requested: &Url) -> Self {
        let text = |name| answer.header(name).map(str::to_owned);
        let length = match answer.parts.status {
            StatusCode::PARTIAL_CONTENT => {
                let range = answer.header(CONTENT_RANGE).and_then(read_range);
                range.and_then(|(_, total)| total)
            }
            _ => answer.length,
        };
        Self {
            etag: text(ETAG),
            modified: text(LAST_MODIFIED),
            length,
            moved: auth::origin(&answer.url) != auth::origin(requested),
        }
    }

    /// Whether both may be the same bytes. Mirrors have different entity tags for a file, but keep its
    /// time and length.
    pub fn is_same(&self, other: &Self) -> bool {
        let lengths = [self.length, other.length];
        if let [Some(one), Some(two)] = lengths
            && one != two
        {
            return false;
        }
        if !self.moved
            && !other.moved
            && let (Some(one), Some(two)) = (&self.etag, &other.etag)
        {
            // Entity tags decide where both sides have one from the same host: `Last-Modified` has a resolution of a
            // second, and a file that is replaced twice within one would look unchanged.
            return one == two;
        }
        self.modified == other.modified
    }

    /// The `If-Range` value that makes a range request fail for another version; `None` without a
    /// strong validator.
    pub fn condition(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|tag| !tag.starts_with("W/"));
        // RFC 9110 (13.1.5) forbids weak entity tags in `If-Range`. After a redirect the tag belongs to one of
        // several mirrors, and the next request may reach another.
        strong.filter(|_| !self.moved).or(self.modified.as_deref())
    }
}

/// A file with the credential to request it with.
#[derive(Clone)]
struct FileRequest {
    file: WebFile,
    url: Url,
    credential: Option<Arc<Credential>>,
    tls: Tls,
    verify: bool,
}

impl Client {
    /// Requests the version of a file. If it is unchanged since the last request, the response is
    /// empty.
    pub fn look<'a>(
        &'a self,
        file: &'a WebFile,
        keyring: &'a Keyring,
    ) -> BoxFuture<'a, Result<FileVersion, Error>> {
        Box::pin(async move {
            let inner = &self.inner;
            let request = inner.file_request(file, keyring)?;
            let key = (
                file.clone(),
                CredentialId::of(request.credential.as_deref()),
            );
            let known = inner.files.get(&key);
            let attempts = inner.settings.retry.attempts;
            let host = file.address.host();
            let looked = inner
                .retry_up_to(host, attempts, || {
                    inner.look(&request, known.as_ref()).boxed()
                })
                .await;
            let version = looked.map_err(|cause| request.error(Operation::Check, cause))?;
            inner.files.insert(key, version.clone());
            Ok(version)
        })
    }

    /// A file as a stream from an offset. All of it belongs to one version, or the stream ends with an
    /// error.
    pub fn file(
        &self,
        file: &WebFile,
        version: &FileVersion,
        keyring: &Keyring,
        offset: u64,
    ) -> Result<BlobStream, Error> {
        let fetching = Fetching {
            inner: Arc::clone(&self.inner),
            request: self.inner.file_request(file, keyring)?,
            version: version.clone(),
            position: offset,
            body: None,
            failures: 0,
            forgiven_at: offset,
        };
        let pieces = stream::unfold(Some(fetching), |fetching| async move {
            let mut fetching = fetching?;
            match fetching.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(fetching))),
                Ok(None) => None,
                Err(cause) => {
                    let error = fetching.request.error(Operation::Blob, cause);
                    Some((Err(error), None))
                }
            }
        });
        Ok(BlobStream::new(pieces.boxed()))
    }
}

impl FileRequest {
    fn error(&self, operation: Operation, cause: Cause) -> Error {
        cause.at(
            operation,
            self.file.address.as_str(),
            self.file.address.host(),
        )
    }

    /// The preemptive authorization: username and password, or a token.
    fn preemptive_authorization(&self) -> Option<Secret> {
        match self.credential.as_deref()? {
            Credential::Bearer(token) => Some(Secret::new(format!("Bearer {}", token.expose()))),
            other => other.basic(),
        }
    }
}

impl Inner {
    fn file_request(&self, file: &WebFile, keyring: &Keyring) -> Result<FileRequest, Error> {
        let address = &file.address;
        let url = Url::parse(address.as_str()).map_err(|_| {
            let cause = Cause::Invalid("it is not a URL".to_owned());
            cause.at(Operation::Check, address.as_str(), address.host())
        })?;
        let host = auth::origin(&url);
        let path = address.path().trim_start_matches('/');
        let credential = keyring.find(&host, path).into_iter().next();
        Ok(FileRequest {
            credential: credential.cloned().map(Arc::new),
            tls: self.transport.tls(&host),
            verify: self.transport.network().routes.verifies(&host),
            file: file.clone(),
            url,
        })
    }

    /// Sends one request. The response is a success or `304`; any other status is an error.
    async fn fetch(
        &self,
        request: &FileRequest,
        operation: Operation,
        method: Method,
        conditions: &[(HeaderName, &str)],
    ) -> Result<Answer, Cause> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, self.agent()?);
        // Request the bytes of the file itself, not compressed in transit.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let shown = request.preemptive_authorization();
        if let Some(shown) = &shown {
            headers.insert(AUTHORIZATION, sensitive(shown.expose())?);
        }
        for (name, value) in &request.file.headers.0 {
            headers.append(name.clone(), value.clone());
        }
        for (name, value) in conditions {
            let value = HeaderValue::from_str(value)
                .map_err(|_| Cause::Invalid(format!("{value:?} fits no header")))?;
            headers.insert(name.clone(), value);
        }
        let answer = self
            .transport
            .send(&Call {
                operation,
                method,
                url: request.url.clone(),
                headers,
                body: Bytes::new(),
                tls: &request.tls,
                verify: request.verify,
                check: &|_| Ok(()),
            })
            .await?;
        let status = answer.parts.status;
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        let credential = request.credential.as_deref();
        Err(refusal(answer, credential, shown.as_ref().map(Secret::expose)).await)
    }

    async fn look(
        &self,
        request: &FileRequest,
        known: Option<&FileVersion>,
    ) -> Result<FileVersion, Cause> {
        let mut conditions = Vec::new();
        if let Some(known) = known {
            let tag = known.etag.as_deref();
            conditions.extend(tag.map(|tag| (IF_NONE_MATCH, tag)));
            // Servers use this one only if they support no entity tags.
            let modified = known.modified.as_deref();
            conditions.extend(modified.map(|time| (IF_MODIFIED_SINCE, time)));
        }
        let operation = Operation::Check;
        let answer = match self
            .fetch(request, operation, Method::HEAD, &conditions)
            .await
        {
            // Presigned URLs are valid for one method, which is not HEAD.
            Err(
                Cause::Unauthorized { .. }
                | Cause::Server {
                    code: 400 | 405 | 501,
                    ..
                },
            ) => {
                // One byte: a server that ignores ranges starts to send the whole file,
                // which ends when the response is dropped.
                conditions.push((RANGE, "bytes=0-0"));
                self.fetch(request, operation, Method::GET, &conditions)
                    .await?
            }
            answer => answer?,
        };
        match known {
            Some(known) if answer.parts.status == StatusCode::NOT_MODIFIED => Ok(known.clone()),
            _ => Ok(FileVersion::of(&answer, &request.url)),
        }
    }
}

/// A file being read.
struct Fetching {
    inner: Arc<Inner>,
    request: FileRequest,
    version: FileVersion,
    position: u64,
    body: Option<Answer>,
    failures: u32,
    forgiven_at: u64,
}

impl Fetching {
    /// The next chunk; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Cause> {
        loop {
            let Some(body) = &mut self.body else {
                if self.version.length == Some(self.position) && self.position > 0 {
                    return Ok(None);
                }
                self.open().await?;
                continue;
            };
            match body.piece().await {
                Ok(Some(piece)) => {
                    let after = self.position.saturating_add(piece.len() as u64);
                    let most = self.inner.settings.blob_limit;
                    let limit = self.version.length.map_or(most, |length| length.min(most));
                    if after > limit {
                        return Err(Cause::TooLarge { limit, found: None });
                    }
                    self.position = after;
                    if after - self.forgiven_at >= PROGRESS {
                        self.forgiven_at = after;
                        self.failures = 0;
                    }
                    return Ok(Some(piece));
                }
                Ok(None) => match self.version.length {
                    Some(expected) if self.position < expected => {
                        let found = self.position;
                        self.back_off(Cause::Truncated { expected, found }).await?;
                    }
                    _ => return Ok(None),
                },
                Err(cause) => self.back_off(cause).await?,
            }
        }
    }

    /// Handles an interruption: waits and resumes, unless that has happened too often or no validator
    /// can prove that the rest belongs to the same version.
    async fn back_off(&mut self, cause: Cause) -> Result<(), Cause> {
        self.body = None;
        self.failures += 1;
        let retry = &self.inner.settings.retry;
        // Without a validator the server may send the rest of another version, and no digest would notice. The import
        // starts again from the beginning instead.
        let is_lost = self.position > 0 && self.version.condition().is_none();
        if !cause.is_transient() || self.failures > retry.resumes || is_lost {
            return Err(cause);
        }
        let wait = retry.wait(self.failures);
        let (file, at) = (&self.request.file.address, self.position);
        tracing::debug!(%file, at, %cause, ?wait, "resuming");
        sleep(wait).await;
        Ok(())
    }

    /// Opens the file at the position.
    async fn open(&mut self) -> Result<(), Cause> {
        let range = format!("bytes={}-", self.position);
        let mut conditions = Vec::new();
        if self.position > 0
            && let Some(condition) = self.version.condition()
        {
            conditions.push((RANGE, range.as_str()));
            conditions.push((IF_RANGE, condition));
        }
        let (inner, request) = (&self.inner, &self.request);
        let attempts = inner.settings.retry.attempts;
        let answer = inner
            .retry_up_to(request.file.address.host(), attempts, || {
                inner
                    .fetch(request, Operation::Blob, Method::GET, &conditions)
                    .boxed()
            })
            .await?;
        let body = self.placed(answer).await?;
        self.body = Some(body);
        Ok(())
    }

    /// The body at the position: a server may answer a range request with the whole file.
    async fn placed(&self, mut answer: Answer) -> Result<Answer, Cause> {
        let found = FileVersion::of(&answer, &self.request.url);
        if !self.version.is_same(&found) {
            return Err(Cause::Invalid(
                "the file changed while it was read; start again".to_owned(),
            ));
        }
        if answer.parts.status == StatusCode::PARTIAL_CONTENT {
            let range = answer.header(CONTENT_RANGE).unwrap_or_default();
            return match read_range(range) {
                Some((start, _)) if start == self.position => Ok(answer),
                _ => Err(Cause::Invalid(format!(
                    "asked for bytes {}-, answered with {:?}",
                    self.position,
                    crate::error::clean(range, &[])
                ))),
            };
        }
        let size = self.version.length.unwrap_or(self.position);
        skip(&mut answer, self.position, size).await?;
        Ok(answer)
    }
}

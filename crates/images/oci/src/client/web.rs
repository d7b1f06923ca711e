//! Files on web servers: asked whether they changed at the price of an empty answer, read as streams
//! that go on where they break off.
//!
//! A file has no digest by which it could be asked for, and may change while it is read: what is read
//! after a break has to be of the version that it began with, or it is an error.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
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

/// More headers are not sent along.
const MOST_HEADERS: usize = 64;

/// What is not for users to say: it would change what is asked.
const OURS: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "range",
    "transfer-encoding",
];

/// A file on a web server, and what is sent along to get it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebFile {
    /// Where it is.
    pub address: Address,
    /// What is sent along, to this host alone.
    pub headers: Headers,
}

/// Headers that are sent along. They may be secrets, and are not shown.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Reads `Name: value`, as CDI's `extraHeaders` has it.
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
                // Not the line: it may hold a secret.
                return Err("a header is no header; `Name: value` is expected".to_owned());
            };
            if OURS.contains(&name.as_str()) {
                return Err(format!(
                    "header {name} cannot be set; {} are set as they have to be",
                    OURS.join(", ")
                ));
            }
            headers.push((name, value));
        }
        if headers.len() > MOST_HEADERS {
            return Err(format!(
                "there are {} headers; up to {MOST_HEADERS} are accepted",
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

/// What a web server says of a file, by which one version is told from another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileVersion {
    /// The entity tag.
    pub etag: Option<String>,
    /// When it was last changed, as the server writes it.
    pub modified: Option<String>,
    /// How many bytes it has.
    pub length: Option<u64>,
    /// Whether another host than the one that was asked has it: one of several, perhaps.
    pub moved: bool,
}

impl FileVersion {
    fn of(answer: &Answer, asked: &Url) -> Self {
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
            moved: auth::origin(&answer.url) != auth::origin(asked),
        }
    }

    /// Whether both may be the same bytes. Hosts that share a file have tags of their own for it, but
    /// keep its time and length.
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
            return one == two;
        }
        self.modified == other.modified
    }

    /// What a range is asked for with, so that it is of this version; nothing if nothing is sure.
    pub fn condition(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|tag| !tag.starts_with("W/"));
        strong.filter(|_| !self.moved).or(self.modified.as_deref())
    }
}

/// A file as one of those who may ask for it.
#[derive(Clone)]
struct Asking {
    file: WebFile,
    url: Url,
    credential: Option<Arc<Credential>>,
    tls: Tls,
    verify: bool,
}

impl Client {
    /// Asks for the version of a file. If it is the one that was seen before, the answer is empty.
    pub async fn look(&self, file: &WebFile, keyring: &Keyring) -> Result<FileVersion, Error> {
        let inner = &self.inner;
        let asking = inner.asking(file, keyring)?;
        let key = (file.clone(), CredentialId::of(asking.credential.as_deref()));
        let known = inner.files.get(&key);
        let attempts = inner.settings.retry.attempts;
        let host = file.address.host();
        let looked = inner
            .insist(host, attempts, || {
                inner.look(&asking, known.as_ref()).boxed()
            })
            .await;
        let version = looked.map_err(|cause| asking.error(Operation::Check, cause))?;
        inner.files.insert(key, version.clone());
        Ok(version)
    }

    /// A file as a stream, from an offset on. All of it is of one version, or it ends with an error.
    pub fn file(
        &self,
        file: &WebFile,
        version: &FileVersion,
        keyring: &Keyring,
        offset: u64,
    ) -> Result<BlobStream, Error> {
        let fetching = Fetching {
            inner: Arc::clone(&self.inner),
            asking: self.inner.asking(file, keyring)?,
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
                    let error = fetching.asking.error(Operation::Blob, cause);
                    Some((Err(error), None))
                }
            }
        });
        Ok(BlobStream::new(pieces.boxed()))
    }
}

impl Asking {
    fn error(&self, operation: Operation, cause: Cause) -> Error {
        cause.at(
            operation,
            self.file.address.as_str(),
            self.file.address.host(),
        )
    }

    /// What is shown unasked: name and password, or a token.
    fn shown(&self) -> Option<Secret> {
        match self.credential.as_deref()? {
            Credential::Bearer(token) => Some(Secret::new(format!("Bearer {}", token.expose()))),
            other => other.basic(),
        }
    }
}

impl Inner {
    fn asking(&self, file: &WebFile, keyring: &Keyring) -> Result<Asking, Error> {
        let address = &file.address;
        let url = Url::parse(address.as_str()).map_err(|_| {
            let cause = Cause::Invalid("it is no address".to_owned());
            cause.at(Operation::Check, address.as_str(), address.host())
        })?;
        let host = auth::origin(&url);
        let path = address.path().trim_start_matches('/');
        let credential = keyring.find(&host, path).into_iter().next();
        Ok(Asking {
            credential: credential.cloned().map(Arc::new),
            tls: self.settings.tls.get(&host).cloned().unwrap_or_default(),
            verify: self.routes.read().verifies(&host),
            file: file.clone(),
            url,
        })
    }

    /// Asks once. The answer is a success, or `304`; everything else is an error.
    async fn fetch(
        &self,
        asking: &Asking,
        operation: Operation,
        method: Method,
        conditions: &[(HeaderName, &str)],
    ) -> Result<Answer, Cause> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, self.agent()?);
        // The bytes of the file, and not as somebody on the way packs them.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let shown = asking.shown();
        if let Some(shown) = &shown {
            headers.insert(AUTHORIZATION, sensitive(shown.expose())?);
        }
        for (name, value) in &asking.file.headers.0 {
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
                url: asking.url.clone(),
                headers,
                body: Bytes::new(),
                tls: &asking.tls,
                verify: asking.verify,
                check: &|_| Ok(()),
            })
            .await?;
        let status = answer.parts.status;
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        let credential = asking.credential.as_deref();
        Err(refusal(answer, credential, shown.as_ref().map(Secret::expose)).await)
    }

    async fn look(
        &self,
        asking: &Asking,
        known: Option<&FileVersion>,
    ) -> Result<FileVersion, Cause> {
        let mut conditions = Vec::new();
        if let Some(known) = known {
            let tag = known.etag.as_deref();
            conditions.extend(tag.map(|tag| (IF_NONE_MATCH, tag)));
            // Servers look at this one only if they know no tags.
            let modified = known.modified.as_deref();
            conditions.extend(modified.map(|time| (IF_MODIFIED_SINCE, time)));
        }
        let operation = Operation::Check;
        let answer = match self
            .fetch(asking, operation, Method::HEAD, &conditions)
            .await
        {
            // Addresses that are signed are so for one method, and it is not this one.
            Err(
                Cause::Unauthorized { .. }
                | Cause::Server {
                    code: 400 | 405 | 501,
                    ..
                },
            ) => {
                conditions.push((RANGE, "bytes=0-0"));
                self.fetch(asking, operation, Method::GET, &conditions)
                    .await?
            }
            answer => answer?,
        };
        match known {
            Some(known) if answer.parts.status == StatusCode::NOT_MODIFIED => Ok(known.clone()),
            _ => Ok(FileVersion::of(&answer, &asking.url)),
        }
    }
}

/// A file on its way.
struct Fetching {
    inner: Arc<Inner>,
    asking: Asking,
    version: FileVersion,
    position: u64,
    body: Option<Answer>,
    failures: u32,
    forgiven_at: u64,
}

impl Fetching {
    /// The next piece; `None` at the end.
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
                        self.stumble(Cause::Truncated { expected, found }).await?;
                    }
                    _ => return Ok(None),
                },
                Err(cause) => self.stumble(cause).await?,
            }
        }
    }

    /// Something broke off: waits and goes on, unless that has happened too often or nobody could
    /// say that what comes then is the rest of it.
    async fn stumble(&mut self, cause: Cause) -> Result<(), Cause> {
        self.body = None;
        self.failures += 1;
        let retry = &self.inner.settings.retry;
        let is_lost = self.position > 0 && self.version.condition().is_none();
        if !cause.is_transient() || self.failures > retry.resumes || is_lost {
            return Err(cause);
        }
        let wait = retry.wait(self.failures);
        let (file, at) = (&self.asking.file.address, self.position);
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
        let (inner, asking) = (&self.inner, &self.asking);
        let attempts = inner.settings.retry.attempts;
        let answer = inner
            .insist(asking.file.address.host(), attempts, || {
                inner
                    .fetch(asking, Operation::Blob, Method::GET, &conditions)
                    .boxed()
            })
            .await?;
        let body = self.placed(answer).await?;
        self.body = Some(body);
        Ok(())
    }

    /// The body at the position: servers may answer with the whole instead of a range.
    async fn placed(&self, mut answer: Answer) -> Result<Answer, Cause> {
        let found = FileVersion::of(&answer, &self.asking.url);
        if !self.version.is_same(&found) {
            return Err(Cause::Invalid(
                "the file was changed while it was read; begin again".to_owned(),
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn version(etag: &str, modified: &str, length: u64, moved: bool) -> FileVersion {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        FileVersion {
            etag: text(etag),
            modified: text(modified),
            length: Some(length),
            moved,
        }
    }

    #[rstest]
    #[case::same_tag(version("\"a\"", "x", 1, false), version("\"a\"", "y", 1, false), true)]
    #[case::other_tag(
        version("\"a\"", "x", 1, false),
        version("\"b\"", "x", 1, false),
        false
    )]
    #[case::other_length(
        version("\"a\"", "x", 1, false),
        version("\"a\"", "x", 2, false),
        false
    )]
    #[case::another_mirror(version("\"a\"", "x", 1, true), version("\"b\"", "x", 1, true), true)]
    #[case::another_time(version("\"a\"", "x", 1, true), version("\"a\"", "y", 1, true), false)]
    #[case::no_tags(version("", "x", 1, false), version("", "x", 1, false), true)]
    fn versions_are_told_apart(
        #[case] one: FileVersion,
        #[case] other: FileVersion,
        #[case] expected: bool,
    ) {
        assert_eq!(one.is_same(&other), expected);
        assert_eq!(other.is_same(&one), expected);
    }

    #[rstest]
    #[case::strong(version("\"a\"", "x", 1, false), Some("\"a\""))]
    #[case::weak(version("W/\"a\"", "x", 1, false), Some("x"))]
    #[case::of_a_mirror(version("\"a\"", "x", 1, true), Some("x"))]
    #[case::nothing(version("W/\"a\"", "", 1, false), None)]
    fn ranges_are_of_one_version(#[case] version: FileVersion, #[case] expected: Option<&str>) {
        assert_eq!(version.condition(), expected);
    }

    #[test]
    fn headers_are_read_and_not_shown() {
        let headers = Headers::read(["X-Token: secret", "accept:text/plain"]).unwrap();
        let shown = format!("{headers:?}");
        assert!(
            shown.contains("x-token") && !shown.contains("secret"),
            "{shown}"
        );
        for (bad, part) in [
            ("no colon secret", "`Name: value`"),
            ("a b: secret", "`Name: value`"),
            ("X: a\r\nY: secret", "`Name: value`"),
            ("Range: secret", "header range cannot be set"),
        ] {
            let said = Headers::read([bad]).unwrap_err();
            assert!(said.contains(part) && !said.contains("secret"), "{said}");
        }
    }
}

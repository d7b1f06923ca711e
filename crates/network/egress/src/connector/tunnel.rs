//! `CONNECT`: asks an HTTP proxy for a connection to a host.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::stream::EgressStream;
use crate::settings::Proxy;

/// Upper bound of the proxy's answer. Its body is never read.
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// Upper bound of its header lines.
const MAX_HEADERS: usize = 64;

/// Asks for a connection to `target` (`host:port`); afterwards the stream leads there.
pub(super) async fn open(
    stream: &mut EgressStream,
    proxy: &Proxy,
    target: &str,
) -> Result<(), String> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(value) = proxy.authorization() {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let io = stream.io();
    let broken = |error: std::io::Error| error.to_string();
    io.write_all(&request).await.map_err(broken)?;
    io.flush().await.map_err(broken)?;
    let mut answer = Vec::with_capacity(512);
    loop {
        if let Some(status) = status_of(&answer)? {
            return accepted(status, proxy.credentials().is_some());
        }
        if answer.len() >= MAX_ANSWER_BYTES {
            return Err(format!(
                "its answer is longer than {MAX_ANSWER_BYTES} bytes"
            ));
        }
        // Byte by byte, because what follows belongs to the tunnel; it is a few hundred bytes per connection.
        let Ok(byte) = io.read_u8().await else {
            return Err("it closed the connection without an answer".to_owned());
        };
        answer.push(byte);
    }
}

/// The status code of a complete answer, with its phrase.
fn status_of(answer: &[u8]) -> Result<Option<(u16, String)>, String> {
    if !answer.ends_with(b"\r\n\r\n") {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(answer) {
        Ok(httparse::Status::Complete(_)) => Ok(Some((
            response.code.unwrap_or_default(),
            response.reason.unwrap_or_default().to_owned(),
        ))),
        _ => Err("its answer is not HTTP".to_owned()),
    }
}

fn accepted((code, phrase): (u16, String), has_credentials: bool) -> Result<(), String> {
    match code {
        200..=299 => Ok(()),
        407 if has_credentials => Err("it rejects the name and password in its URL (407)".to_owned()),
        407 => Err(
            "it requires a name and password (407): set the proxy to http://USER:PASSWORD@HOST:PORT"
                .to_owned(),
        ),
        _ => {
            let phrase: String = phrase.chars().filter(|c| !c.is_control()).take(80).collect();
            Err(format!("{code} {phrase}").trim_end().to_owned())
        }
    }
}

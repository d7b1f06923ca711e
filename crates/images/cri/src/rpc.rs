//! Messages on the wire: decoded where needed, and forwarded unchanged.
//!
//! Requests keep their original bytes, so that the backend receives exactly the same request; responses
//! are bytes, so that the backend's response is returned exactly. List responses are merged by
//! concatenation, which is how protobuf merges repeated fields.

use std::marker::PhantomData;

use bytes::{Buf as _, BufMut as _, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// The maximum message size in both directions: the kubelet's.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// A request and its original bytes.
#[derive(Debug, Clone)]
pub struct RawRequest<T> {
    /// The original bytes.
    pub bytes: Bytes,
    /// The decoded message.
    pub message: T,
}

/// Decodes requests, and writes responses that are bytes already.
#[derive(Debug)]
pub(crate) struct Serving<T>(PhantomData<T>);

impl<T> Default for Serving<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Forwards bytes in both directions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passing;

/// Raw bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl<T: Message + Default + Send + 'static> Codec for Serving<T> {
    type Encode = Bytes;
    type Decode = RawRequest<T>;
    type Encoder = Raw;
    type Decoder = Self;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<T: Message + Default> Decoder for Serving<T> {
    type Item = RawRequest<T>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<RawRequest<T>>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let message = T::decode(bytes.clone())
            .map_err(|error| Status::internal(format!("reading a message: {error}")))?;
        Ok(Some(RawRequest { bytes, message }))
    }
}

impl Codec for Passing {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

//! Messages on the wire: read where that is needed, and passed on as they are.
//!
//! What is asked is kept as it came, so that another service can be asked exactly the same; what is
//! answered is bytes, so that its answer can be given exactly as it was. Answers that are lists can be
//! put one after the other: that is how messages of this kind are joined.

use std::marker::PhantomData;

use bytes::{Buf as _, BufMut as _, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// The largest message, in both directions: that of a kubelet.
pub const LARGEST: usize = 16 << 20;

/// What was asked, and the bytes in which it was.
#[derive(Debug, Clone)]
pub struct Asked<T> {
    /// As it came.
    pub bytes: Bytes,
    /// What it says.
    pub message: T,
}

/// Reads questions, and writes answers that are bytes already.
#[derive(Debug)]
pub(crate) struct Serving<T>(PhantomData<T>);

impl<T> Default for Serving<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Passes bytes on in both directions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passing;

/// Bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl<T: Message + Default + Send + 'static> Codec for Serving<T> {
    type Encode = Bytes;
    type Decode = Asked<T>;
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
    type Item = Asked<T>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Asked<T>>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let message = T::decode(bytes.clone())
            .map_err(|error| Status::internal(format!("reading a message: {error}")))?;
        Ok(Some(Asked { bytes, message }))
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

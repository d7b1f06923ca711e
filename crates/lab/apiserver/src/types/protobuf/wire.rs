//! The protobuf wire format: tags, varints, lengths, independent of messages.

/// One field as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64([u8; 8]),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32,
    /// A group, which no message uses; its fields follow and are skipped one by one.
    Group,
}

impl Wire<'_> {
    /// The number of the wire type.
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Group => 3,
            Self::Fixed32 => 5,
        }
    }
}

fn end_of_input() -> String {
    "unexpected EOF".to_owned()
}

/// Reads the fields of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(end_of_input)?;
            self.rest = rest;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(end_of_input)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next field's number and content; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(format!(
                "proto: illegal tag {number} (wire type {})",
                tag & 7
            ));
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let mut fixed = [0; 8];
                fixed.copy_from_slice(self.take(8)?);
                Wire::Fixed64(fixed)
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| end_of_input())?;
                Wire::Bytes(self.take(length)?)
            }
            3 | 4 => Wire::Group,
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            illegal => return Err(format!("proto: illegal wireType {illegal}")),
        };
        Ok(Some((number, wire)))
    }
}

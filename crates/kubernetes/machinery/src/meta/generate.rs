//! Names from `generateName` (`apiserver/pkg/storage/names`).

/// Letters and digits that are hard to misread and spell no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many random characters are added.
pub const GENERATED_SUFFIX_LENGTH: usize = 5;

/// How much of the base is kept, so that the result is a DNS label.
pub const MAX_GENERATED_NAME_BASE: usize = 63 - GENERATED_SUFFIX_LENGTH;

/// `base` with five random characters; `random` gives evenly spread numbers.
pub fn generate_name(base: &str, mut random: impl FnMut() -> u32) -> String {
    let mut cut = base.len().min(MAX_GENERATED_NAME_BASE);
    // The name is rejected later anyway if it is not ASCII; slicing inside a character would panic before that.
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut name = String::with_capacity(cut + GENERATED_SUFFIX_LENGTH);
    name.push_str(&base[..cut]);
    for _ in 0..GENERATED_SUFFIX_LENGTH {
        let index = random() as usize % ALPHABET.len();
        name.push(char::from(ALPHABET[index]));
    }
    name
}

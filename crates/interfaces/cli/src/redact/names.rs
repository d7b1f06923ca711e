//! Names of secret values: of fields, variables, flags, headers, query parameters and XML elements.

/// Endings of a name without its separators and case: `DB_PASSWORD`, `registryToken`, `client-key-data`.
const ENDINGS: &str = "
    accesskey accesskeys accountkey apikey apikeys authkey authorization clientcertificatedata
    connectionstring cookie credential credentials dockercfg dockerconfigjson encryptionkey
    keydata licensekey masterauth masterkey passcode passin passout passphrase passwd password
    passwordhash passwords presharedkey privatekey privatekeypem productkey pwd recoverykey
    saskey secret secretid secretkey sessionkey sharedaccesskey sharedkey signingkey storagekey
    token tokens userkey
";

/// Last words of a name, where the word may end others that are harmless.
const WORDS: [&str; 10] = [
    "auth", "cred", "creds", "dsn", "jwt", "otp", "pass", "psk", "pw", "sas",
];

/// Words that end in "pass" and have nothing to do with passwords.
const PASSES: [&str; 4] = ["bypass", "compass", "overpass", "surpass"];

/// User data and network data of KubeVirt's cloud-init sources.
const USER_DATA: [&str; 2] = ["networkData", "userData"];

/// Whether a value of this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let plain = plain(name);
    let mut endings = ENDINGS.split_ascii_whitespace();
    if endings.any(|ending| plain.ends_with(ending)) {
        return true;
    }
    if plain.ends_with("pass") {
        return !PASSES.iter().any(|word| plain.ends_with(word));
    }
    let last = last_word(name);
    WORDS.contains(&last.as_str())
}

/// Whether even a number of this name is a secret. A `token` that is a number is a limit or a counter.
pub(super) fn is_password(name: &str) -> bool {
    let plain = plain(name);
    let endings = ["password", "passwd", "passphrase", "passcode", "pwd"];
    endings.iter().any(|ending| plain.ends_with(ending))
}

/// Whether the value of this header goes to the end of its line.
pub(super) fn is_header(name: &str) -> bool {
    let plain = plain(name);
    plain.ends_with("authorization") || plain.ends_with("cookie")
}

/// Whether a field holds user data of a virtual machine.
pub(super) fn is_user_data(name: &str) -> bool {
    USER_DATA.contains(&name.strip_suffix("Base64").unwrap_or(name))
}

/// A name without separators, case and a number at its end: `DB_Password-2` is `dbpassword`.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    plain
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_owned()
}

/// The last word of a name, in lower case; words begin at separators and at capitals.
fn last_word(name: &str) -> String {
    let name = name.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let start = name
        .char_indices()
        .rev()
        .find(|(_, c)| !c.is_ascii_alphabetic())
        .map_or(0, |(at, c)| at + c.len_utf8());
    let word = &name[start..];
    let mut capitals = word.char_indices().rev().filter(|(at, c)| {
        let before = word[..*at].chars().next_back();
        c.is_ascii_uppercase() && before.is_some_and(|it| it.is_ascii_lowercase())
    });
    let start = capitals.next().map_or(0, |(at, _)| at);
    word[start..].to_ascii_lowercase()
}

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn class(address: &str) -> AddressClass {
    AddressClass::of(address.parse().unwrap())
}

#[rstest]
#[case("127.0.0.1", AddressClass::Loopback)]
#[case("127.255.255.254", AddressClass::Loopback)]
#[case("::1", AddressClass::Loopback)]
#[case("169.254.169.254", AddressClass::LinkLocal)]
#[case("169.254.0.23", AddressClass::LinkLocal)]
#[case("fe80::1", AddressClass::LinkLocal)]
#[case("febf::1", AddressClass::LinkLocal)]
#[case("fe80::a9fe:a9fe", AddressClass::LinkLocal)]
#[case("100.100.100.200", AddressClass::Metadata)]
#[case("168.63.129.16", AddressClass::Metadata)]
#[case("192.0.0.192", AddressClass::Metadata)]
#[case("fd00:ec2::254", AddressClass::Metadata)]
#[case("fd00:ec2::23", AddressClass::Metadata)]
#[case("fd20:ce::254", AddressClass::Metadata)]
#[case("fd00:c1::a9fe:a9fe", AddressClass::Metadata)]
#[case("fd00:42::42", AddressClass::Metadata)]
#[case("0.0.0.0", AddressClass::Unspecified)]
#[case("0.1.2.3", AddressClass::Unspecified)]
#[case("::", AddressClass::Unspecified)]
#[case("224.0.0.1", AddressClass::Multicast)]
#[case("239.255.255.250", AddressClass::Multicast)]
#[case("ff02::1", AddressClass::Multicast)]
#[case("240.0.0.1", AddressClass::Reserved)]
#[case("255.255.255.255", AddressClass::Reserved)]
// Where a cluster's own registries are.
#[case("10.96.0.10", AddressClass::Private)]
#[case("172.16.0.1", AddressClass::Private)]
#[case("172.31.255.255", AddressClass::Private)]
#[case("192.168.1.1", AddressClass::Private)]
#[case("100.64.0.1", AddressClass::Private)]
#[case("fd12:3456::1", AddressClass::Private)]
#[case("fec0::1", AddressClass::Private)]
// Just outside.
#[case("126.255.255.255", AddressClass::Public)]
#[case("128.0.0.1", AddressClass::Public)]
#[case("169.253.255.255", AddressClass::Public)]
#[case("169.255.0.0", AddressClass::Public)]
#[case("172.32.0.1", AddressClass::Public)]
#[case("168.63.129.17", AddressClass::Public)]
#[case("100.128.0.1", AddressClass::Public)]
#[case("223.255.255.255", AddressClass::Public)]
#[case("2001:db8::1", AddressClass::Public)]
// IPv4 addresses that IPv6 addresses carry.
#[case("::ffff:127.0.0.1", AddressClass::Loopback)]
#[case("::ffff:a9fe:a9fe", AddressClass::LinkLocal)]
#[case("::127.0.0.1", AddressClass::Loopback)]
#[case("::ffff:0:169.254.169.254", AddressClass::LinkLocal)]
#[case("64:ff9b::127.0.0.1", AddressClass::Loopback)]
#[case("64:ff9b::169.254.169.254", AddressClass::LinkLocal)]
#[case("64:ff9b::100.100.100.200", AddressClass::Metadata)]
#[case("64:ff9b::10.0.0.1", AddressClass::Private)]
#[case("64:ff9b::8.8.8.8", AddressClass::Public)]
#[case("64:ff9b:1::127.0.0.1", AddressClass::Loopback)]
#[case("64:ff9b:1:abcd::169.254.169.254", AddressClass::LinkLocal)]
#[case("64:ff9b:1:a9fe:a9:fe00::", AddressClass::LinkLocal)]
#[case("64:ff9b:1:7f00:0:100:808:808", AddressClass::Loopback)]
#[case("64:ff9b:1::8.8.8.8", AddressClass::Public)]
#[case("64:ff9b:1:fffe::8.8.8.8", AddressClass::Public)]
#[case("2002:7f00:1::", AddressClass::Loopback)]
#[case("2002:a9fe:a9fe::1", AddressClass::LinkLocal)]
#[case("2002:808:808::1", AddressClass::Public)]
#[case("::ffff:8.8.8.8", AddressClass::Public)]
fn addresses_have_a_class(#[case] address: &str, #[case] expected: AddressClass) {
    assert_eq!(class(address), expected);
}

#[rstest]
#[case("127.0.0.0/8", "127.0.0.0/8")]
#[case("127.0.0.1", "127.0.0.1")]
#[case("127.0.0.1/32", "127.0.0.1")]
#[case("127.0.0.1:5000", "127.0.0.1:5000")]
#[case("::1", "::1")]
#[case("[::1]:5000", "[::1]:5000")]
#[case("fe80::/10", "fe80::/10")]
#[case("0.0.0.0/0", "0.0.0.0/0")]
#[case("::ffff:127.0.0.1", "127.0.0.1")]
fn ranges_are_read_and_written(#[case] text: &str, #[case] expected: &str) {
    let range: AddressRange = text.parse().unwrap();
    assert_eq!(range.to_string(), expected);
    assert_eq!(expected.parse(), Ok(range));
}

#[rstest]
#[case("", "expected an IP address")]
#[case("localhost", "expected an IP address")]
#[case("localhost:5000", "expected an IP address")]
#[case("127.1", "expected an IP address")]
#[case("0x7f000001", "expected an IP address")]
#[case("fe80::1%eth0", "expected an IP address")]
#[case("127.0.0.0/", "prefix length")]
#[case("127.0.0.0/33", "prefix length")]
#[case("127.0.0.0/+8", "prefix length")]
#[case("::/129", "prefix length")]
#[case("127.0.0.1/8", "beyond the prefix length")]
#[case("10.0.0.0/8:443", "prefix length")]
#[case("127.0.0.1:65536", "expected an IP address")]
fn invalid_ranges_are_rejected(#[case] text: &str, #[case] why: &str) {
    let error = text.parse::<AddressRange>().unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
    assert!(error.contains("192.0.2.0/24"), "{error}");
}

#[rstest]
#[case("127.0.0.0/8", "127.9.9.9:1", true)]
#[case("127.0.0.0/8", "[::ffff:127.0.0.1]:1", true)]
#[case("127.0.0.0/8", "[::1]:1", false)]
#[case("127.0.0.1:5000", "127.0.0.1:5000", true)]
#[case("127.0.0.1:5000", "127.0.0.1:5001", false)]
#[case("127.0.0.1:5000", "127.0.0.2:5000", false)]
#[case("169.254.0.0/17", "169.254.169.254:80", false)]
#[case("169.254.128.0/17", "169.254.169.254:80", true)]
// A translator is another way to the same host, and is allowed by itself.
#[case("127.0.0.0/8", "[64:ff9b::7f00:1]:1", false)]
#[case("64:ff9b::/96", "[64:ff9b::7f00:1]:1", true)]
fn allowed_ranges_open_nothing_else(
    #[case] range: &str,
    #[case] address: &str,
    #[case] expected: bool,
) {
    let policy = AddressPolicy::allowing([range.parse().unwrap()]);
    assert_eq!(policy.check(address.parse().unwrap()).is_ok(), expected);
}

#[test]
fn refusals_name_the_address_and_the_option() {
    let error = AddressPolicy::default()
        .check("169.254.169.254:80".parse().unwrap())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "169.254.169.254 is a link-local address, which only an administrator can allow (--allow-address 169.254.169.254:80)"
    );
}

#[test]
fn names_keep_the_addresses_that_are_allowed() {
    let policy = AddressPolicy::default();
    let all = [
        "127.0.0.1:80",
        "192.0.2.1:80",
        "[fe80::1]:80",
        "10.0.0.1:80",
    ];
    let all = all.map(|it| it.parse().unwrap());
    let kept = policy.filter(all).unwrap();
    assert_eq!(kept, [all[1], all[3]]);
    let refused = policy.filter([all[2], all[0]]).unwrap_err();
    assert_eq!(refused.address, all[2]);
    assert_eq!(policy.filter([]), Ok(Vec::new()));
    assert_eq!(AddressPolicy::unrestricted().filter(all), Ok(all.to_vec()));
}

proptest! {
    #[test]
    fn carried_addresses_are_as_restricted_as_their_own(bits: u32) {
        let own = Ipv4Addr::from_bits(bits);
        let class = AddressClass::of(own.into());
        let [a, b, c, d] = own.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for carrier in [
            Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ] {
            prop_assert_eq!(AddressClass::of(carrier.into()), class, "{}", carrier);
        }
        let local = Ipv6Addr::new(0x64, 0xff9b, 1, high, u16::from(c), u16::from(d) << 8, 0, 0);
        prop_assert_eq!(AddressClass::of(local.into()), class);
    }

    #[test]
    fn ranges_survive_being_written(bits: u32, length in 0_u8..=32, port: Option<u16>) {
        let text = if let Some(port) = port {
            SocketAddr::new(Ipv4Addr::from_bits(bits).into(), port).to_string()
        } else {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            format!("{}/{length}", Ipv4Addr::from_bits(bits & mask))
        };
        let range: AddressRange = text.parse().unwrap();
        prop_assert_eq!(range.to_string().parse(), Ok(range));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        let _ = text.parse::<AddressRange>();
    }
}

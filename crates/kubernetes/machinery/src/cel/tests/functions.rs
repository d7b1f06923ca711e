//! Functions of all libraries.

use super::{all_fail, all_true};

#[test]
fn conversions() {
    all_true(&[
        "int('42') == 42 && int(3.9) == 3 && int(-3.9) == -3 && int(5u) == 5",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && int(duration('1s')) == 1000000000",
        "uint('7') == 7u && uint(7.5) == 7u && double('1.5') == 1.5 && double(2) == 2.0",
        "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(2u) == '2'",
        "string(1000000.0) == '1e+06' && string(0.00001) == '1e-05' && string(123456.0) == '123456'",
        "string(b'abc') == 'abc' && bytes('é') == b'\\303\\251'",
        "bool('true') && bool('T') && !bool('0')",
        "string(duration('90m')) == '5400s' && string(duration('1.5s')) == '1.5s'",
        "string(timestamp('2020-01-02T03:04:05.6Z')) == '2020-01-02T03:04:05.6Z'",
        "string(timestamp('2020-01-02T03:04:05+02:00')) == '2020-01-02T01:04:05Z'",
        "type(1) == int && type('a') == string && type(timestamp(0)) == google.protobuf.Timestamp",
        "type(duration('1s')) == google.protobuf.Duration && type([]) == list && type({}) == map",
    ]);
}

#[test]
fn timestamps_and_durations() {
    all_true(&[
        "timestamp('2023-12-25T12:30:45.678Z').getFullYear() == 2023",
        "timestamp('2023-12-25T12:30:45.678Z').getMonth() == 11",
        "timestamp('2023-12-25T12:30:45.678Z').getDate() == 25",
        "timestamp('2023-12-25T12:30:45.678Z').getDayOfMonth() == 24",
        "timestamp('2023-12-25T12:30:45.678Z').getDayOfYear() == 358",
        "timestamp('2023-12-25T12:30:45.678Z').getDayOfWeek() == 1",
        "timestamp('2023-12-25T12:30:45.678Z').getHours() == 12",
        "timestamp('2023-12-25T12:30:45.678Z').getHours('02:00') == 14",
        "timestamp('2023-12-25T12:30:45.678Z').getHours('-02:30') == 10",
        "timestamp('2023-12-25T12:30:45.678Z').getMinutes() == 30",
        "timestamp('2023-12-25T12:30:45.678Z').getSeconds() == 45",
        "timestamp('2023-12-25T12:30:45.678Z').getMilliseconds() == 678",
        "duration('1h30m').getHours() == 1 && duration('1h30m').getMinutes() == 90",
        "duration('1500ms').getSeconds() == 1 && duration('1500ms').getMilliseconds() == 1500",
        "timestamp('2023-01-01T00:00:00Z') + duration('24h') == timestamp('2023-01-02T00:00:00Z')",
        "timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z') == duration('24h')",
        "duration('1h') - duration('1m') == duration('59m') && duration('1m') < duration('1h')",
        "timestamp('2023-01-01T00:00:00Z') < timestamp('2023-01-01T00:00:00.000000001Z')",
    ]);
    all_fail(&[
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)",
            "timestamp overflow",
        ),
        (
            "timestamp(0).getHours('Nowhere/Land') == 1",
            "unknown time zone Nowhere/Land",
        ),
        (
            "timestamp('2023-13-01T00:00:00Z') == timestamp(0)",
            "invalid timestamp argument",
        ),
    ]);
}

#[test]
fn strings() {
    all_true(&[
        "'tacocat'.charAt(3) == 'o' && 'abc'.charAt(3) == ''",
        "'tacocat'.indexOf('c') == 2 && 'tacocat'.indexOf('c', 3) == 4 && 'abc'.indexOf('z') == -1",
        "'tacocat'.indexOf('') == 0 && 'ta©o©αT'.indexOf('α') == 5",
        "'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('c', 3) == 2",
        "'tacocat'.lastIndexOf('none') == -1 && 'tacocat'.lastIndexOf('') == 7",
        "'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacocæt'.upperAscii() == 'TACOCæT'",
        "'hello hello'.replace('he', 'we') == 'wello wello'",
        "'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'hello hello'.replace('he', 'we', 0) == 'hello hello'",
        "'ab'.replace('', '-') == '-a-b-'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'a,b'.split(',', 0) == [] && 'ab'.split('') == ['a', 'b']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'  \\u00a0trim\\n '.trim() == 'trim'",
        "['x', 'y'].join() == 'xy' && ['x', 'y'].join('-') == 'x-y' && [].join() == ''",
        r#"strings.quote('a"b\n') == '"a\\"b\\n"'"#,
        "'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.contains('ell')",
    ]);
    all_fail(&[
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.indexOf('a', -1) == 0", "index out of range: -1"),
        (
            "'abc'.substring(2, 1) == ''",
            "invalid substring range. start: 2, end: 1",
        ),
        ("'abc'.substring(40) == ''", "index out of range: 40"),
        (
            "'a'.reverse() == 'a'",
            "found no matching overload for 'reverse' applied to 'string.()'",
        ),
    ]);
}

#[test]
fn formatting() {
    all_true(&[
        "'%s is %d years'.format(['Al', 30]) == 'Al is 30 years'",
        "'%s'.format([[1, 'a', 2.5, null]]) == '[1, \"a\", 2.500000, null]'",
        "'%s'.format([{'b': 1, 'a': true}]) == '{\"a\":true, \"b\":1}'",
        "'%.2f %f'.format([1.234, 12345.5]) == '1.23 12,345.500000'",
        "'%e'.format([3.14]) == '3.140000×10⁰⁰' && '%.1e'.format([0.0012]) == '1.2×10⁻⁰³'",
        "'%b %o %x %X'.format([5, 8, 255, 255]) == '101 10 ff FF'",
        "'%x'.format(['hi']) == '6869' && '%b'.format([true]) == '1'",
        "'100%%'.format([]) == '100%'",
        "'%s %s'.format([duration('1h'), timestamp(0)]) == '3600s 1970-01-01T00:00:00Z'",
        "'%s'.format([type(1)]) == 'int'",
    ]);
    all_fail(&[
        (
            "'%d'.format(['a']) == ''",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s %s'.format([1]) == ''", "index 1 out of range"),
        (
            "'%q'.format([1]) == ''",
            "could not parse formatting clause: unrecognized formatting clause \"q\"",
        ),
        ("'%'.format([1]) == ''", "unexpected end of string"),
    ]);
}

#[test]
fn regular_expressions() {
    all_true(&[
        "'abc'.matches('b') && matches('abc', '^a.c$') && !'abc'.matches('^b')",
        r"'a1'.matches(r'^\w\d$') && !'é'.matches(r'^\w$') && !'٣'.matches(r'\d')",
        r"'a{'.matches('a{') && '[x'.matches('[[x]+') && 'a.b'.matches(r'\Qa.b\E')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
        "'ab'.matches('(?i)AB') && 'foo-bar'.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    ]);
    all_fail(&[
        ("'a'.matches('(')", "invalid matches argument"),
        (
            "'a'.find('(') == ''",
            "Illegal regex: error parsing regexp: missing closing ): `(`",
        ),
    ]);
}

#[test]
fn lists() {
    all_true(&[
        "[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [].isSorted()",
        "[1, 2].sum() == 3 && [1.0, 2.5].sum() == 3.5 && [duration('1m'), duration('1s')].sum() == duration('61s')",
        "[3, 1].min() == 1 && ['b', 'a'].max() == 'b'",
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(5) == -1",
        "[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(1, 1) == []",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [[[1], [2]]].flatten(2) == [1, 2]",
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b']",
        "lists.range(3) == [0, 1, 2] && lists.range(0) == []",
        "[1, 2].reverse() == [2, 1] && [1, 1, 2].distinct() == [1, 2]",
        "[1, 2].first() == optional.of(1) && [].last() == optional.none() && [1, 2].last().value() == 2",
        "sets.contains([1, 2], [1]) && !sets.contains([1], [1, 2]) && sets.contains([1], [])",
        "sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1], [1, 2]) && !sets.intersects([1], [])",
        "sets.contains([1], dyn([1.0, 1.0]))",
    ]);
    all_fail(&[
        ("[].min() == 1", "min called on empty list"),
        (
            "[1].slice(0, 2) == []",
            "cannot slice(0, 2), list is length 1",
        ),
        (
            "[1].slice(-1, 1) == []",
            "cannot slice(-1, 1), negative indexes not supported",
        ),
        (
            "[1].slice(1, 0) == []",
            "cannot slice(1, 0), start index must be less than or equal to end index",
        ),
        ("[[1]].flatten(-1) == []", "level must be non-negative"),
    ]);
}

#[test]
fn urls() {
    all_true(&[
        "url('https://user:pw@example.com:80/a%20b?k=v&k=w&x=#f').getScheme() == 'https'",
        "url('https://user:pw@example.com:80/a').getHost() == 'example.com:80'",
        "url('https://example.com:80/a').getHostname() == 'example.com'",
        "url('https://[::1]:80/a').getHostname() == '::1' && url('https://[::1]:80').getPort() == '80'",
        "url('https://example.com/a').getPort() == '' && url('/path').getHost() == ''",
        "url('https://example.com/a b/').getEscapedPath() == '/a%20b/'",
        "url('https://example.com/a%20b#f').getEscapedPath() == '/a%20b'",
        "url('https://e.com/p?k1=a&k2=b&k2=c&e=').getQuery() == {'k1': ['a'], 'k2': ['b', 'c'], 'e': ['']}",
        "isURL('https://a') && isURL('/x') && !isURL('x') && !isURL('../x') && !isURL('https://a:b')",
        "url('https://a') == url('https://a') && url('https://a') != url('https://b')",
    ]);
    all_fail(&[(
        "url('x') == url('/')",
        "URL parse error during conversion from string: parse \"x\": invalid URI for request",
    )]);
}

#[test]
fn addresses() {
    all_true(&[
        "ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && ip('0.0.0.0').isUnspecified()",
        "ip('10.0.0.1').family() == 4 && ip('2001:db8::1').family() == 6",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "isIP('1.2.3.4') && !isIP('1.2.3') && !isIP('01.2.3.4') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')",
        "string(ip('192.168.0.1')) == '192.168.0.1' && type(ip('1.1.1.1')) == net.IP",
        "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP(ip('192.168.1.1'))",
        "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && !cidr('192.168.10.0/24').containsCIDR('192.168.0.0/16')",
        "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && cidr('10.0.0.0/8').prefixLength() == 8",
        "cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && string(cidr('::1/128')) == '::1/128'",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')",
        "cidr('0.0.0.0/0').containsIP('1.2.3.4')",
    ]);
    all_fail(&[
        (
            "ip('fe80::1%en0').family() == 6",
            "IP address \"fe80::1%en0\" with zone value is not allowed",
        ),
        (
            "ip('::ffff:1.2.3.4').family() == 6",
            "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed",
        ),
        (
            "ip('x').family() == 4",
            "IP Address \"x\" parse error during conversion from string: ParseAddr(\"x\"): unable to parse IP",
        ),
    ]);
}

#[test]
fn quantities() {
    all_true(&[
        "quantity('1.5Gi').compareTo(quantity('1536Mi')) == 0 && quantity('1k') == quantity('1000')",
        "quantity('50k').isGreaterThan(quantity('1')) && quantity('100m').isLessThan(quantity('1'))",
        "isQuantity('200M') && isQuantity('1e3') && !isQuantity('Three') && !isQuantity('1.2.3') && !isQuantity('1Q')",
        "quantity('50M').asInteger() == 50000000 && quantity('50k').isInteger() && !quantity('1500m').isInteger()",
        "quantity('1500m').asApproximateFloat() == 1.5 && sign(quantity('-5')) == -1",
        "quantity('50k').add(quantity('20')).compareTo(quantity('50020')) == 0",
        "quantity('50k').sub(20) == quantity('49980') && quantity('1').add(-2) == quantity('-1')",
    ]);
    all_fail(&[
        (
            "quantity('10Mo') == quantity('1')",
            "quantities must match the regular expression",
        ),
        (
            "quantity('9999999999999999999999G').asInteger() == 1",
            "cannot convert value to integer",
        ),
    ]);
}

#[test]
fn versions() {
    all_true(&[
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('1.2.3').compareTo(semver('1.10.0')) == -1 && semver('2.0.0').isGreaterThan(semver('2.0.0-rc.1'))",
        "semver('1.0.0').isLessThan(semver('1.0.1')) && semver('1.0.0+a') == semver('1.0.0+b')",
        "isSemver('1.0.0') && !isSemver('v1.0.0') && !isSemver('1.0') && isSemver('v1.0', true)",
        "semver('v01.01', true) == semver('1.1.0') && semver('1', true) == semver('1.0.0')",
    ]);
    all_fail(&[
        (
            "semver('1.0') == semver('1.0.0')",
            "No Major.Minor.Patch elements found",
        ),
        (
            "semver('1.0-rc', true) == semver('1.0.0')",
            "short version cannot contain PreRelease/Build meta data",
        ),
    ]);
}

#[test]
fn named_formats() {
    all_true(&[
        "!format.dns1123Label().validate('my-label').hasValue()",
        "format.dns1123Label().validate('My-Label').value()[0].startsWith('a lowercase RFC 1123 label')",
        "format.dns1123Subdomain().validate('a.b.c') == optional.none()",
        "format.named('dns1035Label').value().validate('1a').hasValue()",
        "!format.named('none').hasValue() && format.named('uri').hasValue()",
        "!format.qualifiedName().validate('example.com/name').hasValue()",
        "format.labelValue().validate('-').hasValue() && !format.labelValue().validate('').hasValue()",
        "!format.dns1123LabelPrefix().validate('a-').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "format.uuid().validate('x').value() == ['does not match the UUID format']",
        "!format.byte().validate('aGk=').hasValue() && format.byte().validate('*').value() == ['invalid base64']",
        "!format.date().validate('2021-01-01').hasValue() && format.date().validate('x').value() == ['invalid date']",
        "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()",
        "format.uri().validate('x').hasValue() && !format.uri().validate('http://a').hasValue()",
    ]);
}

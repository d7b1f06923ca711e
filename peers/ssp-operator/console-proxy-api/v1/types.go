// Package v1 takes the place of the API of vm-console-proxy, of which the operator uses one type: the TLS
// settings in the ConfigMap of that proxy, an operand that is not deployed by default.
package v1

// TLS versions.
const (
	VersionTLS10 = "VersionTLS10"
	VersionTLS11 = "VersionTLS11"
	VersionTLS12 = "VersionTLS12"
	VersionTLS13 = "VersionTLS13"
)

// TlsProfile is the TLS settings of the proxy.
type TlsProfile struct {
	Ciphers       []string `json:"ciphers,omitempty"`
	MinTLSVersion string   `json:"minTLSVersion,omitempty"`
}

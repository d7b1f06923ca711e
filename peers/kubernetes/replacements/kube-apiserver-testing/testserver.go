// Package testing takes the place of k8s.io/kubernetes/cmd/kube-apiserver/app/testing in integration tests: its test
// server is `medley apiserver`.
package testing

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/rest"

	"medley.dev/peers/kubernetes/apiserver"
)

// TestServerInstanceOptions are accepted and ignored.
type TestServerInstanceOptions struct {
	EnableCertAuth bool
	BinaryVersion  string
	RequestTimeout time.Duration
}

// TearDownFunc stops a test server.
type TearDownFunc func()

// TestServer is a running server. EtcdClient is nil: tests that read or write etcd fail.
type TestServer struct {
	ClientConfig      *rest.Config
	TearDownFn        TearDownFunc
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

// NewDefaultTestServerOptions returns the options of most tests.
func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

// StartTestServer starts a server. Flags and storage are those of kube-apiserver, and ignored.
func StartTestServer(t testing.TB, _ *TestServerInstanceOptions, flags []string, _ *storagebackend.Config) (TestServer, error) {
	t.Helper()
	t.Logf("medley apiserver, without the flags %q", flags)
	config, stop, err := apiserver.Start()
	return TestServer{ClientConfig: config, TearDownFn: stop}, err
}

// GetEtcdClients fails: objects are not in an etcd.
func GetEtcdClients(storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	return nil, nil, errors.New("the objects of medley apiserver are not in an etcd")
}

// StartTestServerOrDie starts a server, or fails the test.
func StartTestServerOrDie(t testing.TB, options *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) *TestServer {
	t.Helper()
	server, err := StartTestServer(t, options, flags, storage)
	if err != nil {
		t.Fatalf("starting a test server: %v", err)
	}
	return &server
}

// Package testing takes the place of k8s.io/apiextensions-apiserver/pkg/cmd/server/testing in integration tests: its test
// server is `medley apiserver`.
package testing

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"medley.dev/peers/kubernetes/apiserver"
)

// Logger is implemented by tests and benchmarks.
type Logger interface {
	Errorf(format string, args ...interface{})
	Fatalf(format string, args ...interface{})
	Logf(format string, args ...interface{})
}

// TestServerInstanceOptions are accepted and ignored.
type TestServerInstanceOptions struct{}

// TearDownFunc stops a test server.
type TearDownFunc func()

// TestServer is a running server. ServerOpts are the parsed flags, without an effect on it; CompletedConfig is empty.
type TestServer struct {
	ClientConfig    *rest.Config
	ServerOpts      *options.CustomResourceDefinitionsServerOptions
	TearDownFn      TearDownFunc
	CompletedConfig extensions.CompletedConfig
}

// StartTestServer starts a server. Flags and storage are those of apiextensions-apiserver, and have no effect.
func StartTestServer(t Logger, _ *TestServerInstanceOptions, flags []string, _ *storagebackend.Config) (TestServer, error) {
	t.Logf("medley apiserver, without the flags %q", flags)
	parsed := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	parsed.AddFlags(set)
	if err := set.Parse(flags); err != nil {
		return TestServer{}, err
	}
	config, stop, err := apiserver.Start()
	if err != nil {
		return TestServer{}, err
	}
	if err := createNamespaces(config); err != nil {
		stop()
		return TestServer{}, err
	}
	return TestServer{ClientConfig: config, ServerOpts: parsed, TearDownFn: stop}, nil
}

// createNamespaces creates the namespaces of the tests, which expect a server without namespaces that admits them all.
func createNamespaces(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, name := range []string{"not-the-default", "namespace-1", "namespace-2", "the-cruel-default", "test"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(context.Background(), namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	return nil
}

// Package apiserver starts `medley apiserver` for integration tests of Kubernetes, which start a kube-apiserver in their
// own process otherwise.
package apiserver

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// programVariable names the program under test.
const programVariable = "MEDLEY"

// Start starts a server with an empty store, and returns an administrator's client configuration and a function that
// stops the server. The server ends with this process, however that ends.
func Start() (*rest.Config, func(), error) {
	program := os.Getenv(programVariable)
	if program == "" {
		return nil, nil, errors.New(programVariable + " has to name the program medley")
	}
	folder, err := os.MkdirTemp("", "medley-apiserver")
	if err != nil {
		return nil, nil, fmt.Errorf("creating a folder for a kubeconfig: %w", err)
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	server := exec.Command(program, "apiserver", "--memory", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig)
	server.Stderr = os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stop, err := run(server)
	if err != nil {
		os.RemoveAll(folder)
		return nil, nil, err
	}
	remove := sync.OnceFunc(func() {
		stop()
		os.RemoveAll(folder)
	})
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("reading the kubeconfig of the server: %w", err)
	}
	// As upstream's test servers: no test waits for the client's own rate limit.
	config.QPS, config.Burst = 1000, 10000
	return config, remove, nil
}

// run starts the server and waits until it is ready.
func run(server *exec.Cmd) (func(), error) {
	output, err := server.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("reading the output of the server: %w", err)
	}
	started, stopped := make(chan error), make(chan struct{})
	go func() {
		// The kernel sends Pdeathsig when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- server.Start()
		<-stopped
	}()
	if err := <-started; err != nil {
		close(stopped)
		return nil, fmt.Errorf("starting %s: %w", server.Path, err)
	}
	stop := func() {
		// An error means that it has ended.
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		close(stopped)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready: ") {
		stop()
		return nil, fmt.Errorf("the server is not ready: it printed %q: %v", line, err)
	}
	return stop, nil
}

// Package libnbd takes the place of the binding to the C library of the same name, which the importer
// uses for VMware disks (VDDK) only. Every call fails: all other sources of an import never get here, and
// the importer builds without cgo and without the library's headers.
package libnbd

import "errors"

var errUnsupported = errors.New("this build of the importer has no libnbd: VDDK sources are not supported")

// Flags of block status requests and replies, as the NBD protocol numbers them.
const (
	CMD_FLAG_REQ_ONE uint32 = 1 << 3
	STATE_HOLE       uint32 = 1 << 0
	STATE_ZERO       uint32 = 1 << 1
)

type (
	// CmdFlag is a set of flags of a request.
	CmdFlag = uint32
	// PreadOptargs are the options of Pread.
	PreadOptargs struct{}
	// BlockStatusOptargs are the options of BlockStatus.
	BlockStatusOptargs struct {
		FlagsSet bool
		Flags    CmdFlag
	}
	// ExtentCallback receives the extents of a block status reply.
	ExtentCallback func(metacontext string, offset uint64, extents []uint32, err *int) int
	// LibnbdError is the error of a call.
	LibnbdError struct{}
	// Libnbd is a connection.
	Libnbd struct{}
)

func (*LibnbdError) Error() string { return errUnsupported.Error() }

// Create fails: no connection can be made.
func Create() (*Libnbd, error) { return nil, errUnsupported }

// AddMetaContext fails.
func (*Libnbd) AddMetaContext(string) error { return errUnsupported }

// ConnectUri fails.
func (*Libnbd) ConnectUri(string) error { return errUnsupported }

// GetSize fails.
func (*Libnbd) GetSize() (uint64, error) { return 0, errUnsupported }

// Pread fails.
func (*Libnbd) Pread([]byte, uint64, *PreadOptargs) error { return errUnsupported }

// BlockStatus fails.
func (*Libnbd) BlockStatus(uint64, uint64, ExtentCallback, *BlockStatusOptargs) error {
	return errUnsupported
}

// Close succeeds.
func (*Libnbd) Close() *LibnbdError { return nil }

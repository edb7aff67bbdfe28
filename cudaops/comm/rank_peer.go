package comm

import (
	"errors"
	"fmt"
	"time"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
)

// Constants of the struct Signals in allreduce.cu.
const (
	maxRanks     = 8
	maxBlocks    = 256
	signalFailed = (2*maxBlocks*maxRanks + maxBlocks) * 4
	signalBytes  = signalFailed + 4
)

// kernelLimit is how long a peer-memory kernel waits for its peers.
const kernelLimit = 2 * time.Second

// peerThreads is the block size of the peer-memory kernels.
const peerThreads = 512

// OneShotMost is the largest message of the one-shot kernel in bytes. Its staging memory contains two
// messages of each rank.
const OneShotMost = 16 << 20

// peerStaging returns the staging memory that a kernel needs for a message, in bytes.
func peerStaging(via string, ranks int, bytes int64) int64 {
	if via == viaOneShot {
		return 2 * int64(ranks) * bytes
	}
	return bytes
}

// peerSupported returns an error if the peer-memory kernel cannot reduce the message.
func peerSupported(via string, t nccl.DataType, ranks int, elements int64) error {
	switch {
	case t != nccl.Half && t != nccl.BFloat16:
		return errors.New("the peer-memory kernels reduce bfloat16 and half")
	case ranks != 2 && ranks != 4 && ranks != 8:
		return fmt.Errorf("the peer-memory kernels are built for 2, 4 and 8 GPUs, not %d", ranks)
	case elements%8 != 0:
		return fmt.Errorf("%d elements are not whole words of 16 bytes", elements)
	case via == viaOneShot && elements*t.Size() > OneShotMost:
		return fmt.Errorf("a one-shot all-reduce of %d bytes: it takes at most %d", elements*t.Size(), OneShotMost)
	case via == viaTwoShot && elements%int64(8*ranks) != 0:
		return fmt.Errorf("%d elements do not split into %d slices of whole 16-byte words", elements, ranks)
	}

	return nil
}

// peerExecution returns a function that launches a peer-memory kernel.
func (r *rank) peerExecution(t task, d data) (func() error, error) {
	if err := peerSupported(t.Via, t.Type, t.Ranks, t.Elements); err != nil {
		return nil, err
	}

	if len(t.Peers) < t.Ranks || t.Grid < 1 || t.Grid > maxBlocks {
		return nil, fmt.Errorf("a launch of %d blocks that knows %d of %d ranks", t.Grid, len(t.Peers), t.Ranks)
	}

	word := "half"
	if t.Type == nccl.BFloat16 {
		word = "bfloat16"
	}

	name := fmt.Sprintf("comm_%s_%s_%d", t.Via, word, t.Ranks)
	fn, ok := r.reduce[name]
	if !ok {
		return nil, fmt.Errorf("kernel %s is not loaded", name)
	}

	words := uint64(t.Elements * t.Type.Size() / 16)
	args := []any{d.send, d.recv, words, words, uint32(r.no), uint64(kernelLimit.Nanoseconds())}

	// The last parameter is a struct of pointers, which is passed as consecutive words.
	for _, part := range []func(place) driver.Ptr{
		func(p place) driver.Ptr { return p.Signals },
		func(p place) driver.Ptr { return p.Staging },
		// The result is at the start of the receive buffer, both in place and out of place.
		func(p place) driver.Ptr { return p.Recv },
	} {
		for i := range maxRanks {
			if i < t.Ranks {
				args = append(args, part(t.Peers[i]))
			} else {
				args = append(args, driver.Ptr(0))
			}
		}
	}

	launch := driver.Launch{Func: fn, Grid: [3]int{t.Grid, 1, 1}, Block: [3]int{peerThreads, 1, 1}, Args: args}
	return func() error { return r.node.Driver.Launch(launch, r.stream) }, nil
}

// usePeers enables access to the memory of the other ranks and loads the kernels. It launches each kernel
// once without work, because the first launch may load code. Loading waits for running kernels, which would
// deadlock while kernels wait for each other.
func (r *rank) usePeers(t task) error {
	d := r.node.Driver
	for i := range t.Ranks {
		if i == r.no {
			continue
		}

		other := t.Peers[i].Device
		can, err := d.CanAccessPeer(r.device, other)
		if err != nil {
			return err
		}

		if !can && t.Via == viaCopy {
			continue // the driver copies through the host instead
		}

		if !can {
			return fmt.Errorf("%w: device %d has no access to the memory of device %d", errNoAccess, r.device, other)
		}

		if err := d.EnablePeer(driver.Context(t.Peers[i].Context)); err != nil {
			return err
		}
	}

	if t.Via != viaOneShot && t.Via != viaTwoShot {
		return nil
	}

	if len(r.reduce) == 0 {
		mod, err := r.load("allreduce.cu", allreduceSource)
		if err != nil {
			return err
		}

		for _, via := range []string{viaOneShot, viaTwoShot} {
			for _, word := range []string{"half", "bfloat16"} {
				for _, n := range []int{2, 4, 8} {
					name := fmt.Sprintf("comm_%s_%s_%d", via, word, n)
					fn, err := d.Function(mod, name)
					if err != nil {
						return err
					}
					r.reduce[name] = fn
				}
			}
		}
	}

	for _, fn := range r.reduce {
		args := []any{r.send.at, r.recv.at, uint64(0), uint64(0), uint32(r.no), uint64(0)}
		for i := range 3 * maxRanks {
			if i/maxRanks == 0 {
				args = append(args, r.signals)
			} else {
				args = append(args, driver.Ptr(0))
			}
		}
		err := d.Launch(driver.Launch{Func: fn, Grid: [3]int{1, 1, 1}, Block: [3]int{peerThreads, 1, 1},
			Args: args}, r.stream)
		if err != nil {
			return err
		}
	}

	if err := d.Memset8(r.signals, 0, signalBytes, r.stream); err != nil {
		return err
	}

	return r.wait(t, 0)
}

var errNoAccess = errors.New("no peer access")

package host

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/cudaops/load/loadtest"
)

// TestMain lets this binary run as a model server with injected faults.
func TestMain(m *testing.M) {
	if os.Getenv("HOST_TEST_SERVER") == "" {
		os.Exit(m.Run())
	}
	if err := standIn(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

func standIn(args []string) error {
	f := flag.NewFlagSet("server", flag.ExitOnError)
	host := f.String("host", "127.0.0.1", "")
	port := f.String("port", "", "")
	tp := f.Int("tp", 1, "")
	traces := f.String("traces", "", "")
	trace := f.String("trace", "", "")
	starts := f.String("starts", "", "a file that gets a line a start")
	fault := f.String("fault", "", "")
	status := f.Int("status", 500, "of no completion")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *starts != "" {
		s, err := os.OpenFile(*starts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		fmt.Fprintf(s, "tp %d, GPUs %q\n", *tp, os.Getenv("CUDA_VISIBLE_DEVICES"))
		s.Close()
	}
	o := loadtest.Options{SkipTokenizer: true, ProfileDir: *traces, Truth: true}
	if *trace != "" { // one per rank; the last one is also used for further ranks
		list := strings.Split(*trace, ",")
		for rank := range *tp {
			o.ProfileTraces = append(o.ProfileTraces, list[min(rank, len(list)-1)])
		}
	}
	switch *fault {
	case "dies at once":
		fmt.Println("loading weights")
		return fmt.Errorf("RuntimeError: the weights are broken")
	case "never ready":
		fmt.Println("compiling for ever")
		select {}
	case "no completion":
		o.Faults = []loadtest.Fault{{Kind: loadtest.FaultStatus, Every: 1, Status: *status}}
	case "hangs in the middle": // the first request is the readiness check
		o.Faults = []loadtest.Fault{{Kind: loadtest.FaultHang, Every: 2, After: 1}}
	case "hangs while it is traced": // preceded by the readiness check, 2 warm-up requests and 6 others
		o.Faults = []loadtest.Fault{{Kind: loadtest.FaultHang, Every: 10, After: 1}}
	case "dies in the middle", "dies slowly", "dies slowly in the middle", "refuses in the middle", "refuses the load", "refuses the trace":
		o.Faults = []loadtest.Fault{{Kind: loadtest.FaultHang, Every: hanging[*fault], After: 1}}
	case "resets some":
		o.Faults = []loadtest.Fault{{Kind: loadtest.FaultReset, Every: 5}}
	case "noise":
		line := bytes.Repeat([]byte("x"), 1<<20)
		line[len(line)-1] = '\n'
		for range 100 {
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
	case "children":
		// One in its process group, and one in a separate session.
		for _, own := range []bool{false, true} {
			c := exec.Command("sleep", "600")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
			if err := c.Start(); err != nil {
				return err
			}
		}
	}
	s, err := loadtest.New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(*host, *port))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if *fault == "ignores SIGTERM" {
		ctx = context.Background()
	}
	if last := hanging[*fault]; last > 0 {
		go func() {
			for s.Requests() < last {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("CUDA error: an illegal memory access was encountered")
			if *fault == "dies in the middle" {
				os.Exit(7)
			}
			_ = l.Close()
			s.Close()
			if strings.HasPrefix(*fault, "dies slowly") {
				time.Sleep(3 * endLook) // simulate a server that releases GPUs
				os.Exit(7)
			}
		}()
	}
	if err := s.Serve(ctx, l); err != nil {
		return err
	}
	<-ctx.Done() // a server that refuses requests runs until it is stopped
	return nil
}

// hanging are the requests at which servers with a fault end or refuse. They get no complete response, so
// that the load lasts until then. 1 is the readiness check, 2 and 3 are the warm-up of the first case.
var hanging = map[string]int{"dies in the middle": 7, "dies slowly": 2, "dies slowly in the middle": 7,
	"refuses in the middle": 7, "refuses the load": 2, "refuses the trace": 10}

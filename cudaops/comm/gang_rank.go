package comm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/driver"
)

// Environment variables with the number of a process, globally and on its node, as set by common launchers.
var (
	rankVars  = []string{"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK"}
	localVars = []string{"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK"}
)

func firstNumber(names []string) (int, bool) {
	for _, name := range names {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n, true
		}
	}
	return 0, false
}

// nodeName returns Slurm's name of this node, else the host name. They differ on test clusters with several
// nodes per host.
func nodeName() string {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}

	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// dialTime bounds the connection attempt to one address of the worker.
const dialTime = 10 * time.Second

// callWorker connects to the worker that started this rank. It returns nil if the rank was not started by a
// launcher.
func callWorker() (net.Conn, error) {
	at := os.Getenv(callVar)
	if at == "" {
		return nil, nil
	}

	me := caller{Token: os.Getenv(tokenVar), Node: nodeName()}
	var ok bool
	if me.Rank, ok = firstNumber(rankVars); !ok {
		return nil, fmt.Errorf("the launcher has given this process no number: one of %s", strings.Join(rankVars, ", "))
	}

	if me.Local, ok = firstNumber(localVars); !ok {
		return nil, fmt.Errorf("the launcher has not numbered the processes of a node: one of %s",
			strings.Join(localVars, ", "))
	}

	// Do not pass the token to NCCL and child processes.
	for _, name := range []string{callVar, tokenVar} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}

	var errs []error
	for to := range strings.SplitSeq(at, ",") {
		conn, err := net.DialTimeout("tcp", to, dialTime)
		if err == nil {
			err = json.NewEncoder(conn).Encode(me)
		}
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}

	return nil, fmt.Errorf("rank %d on %s cannot reach its worker; NCCL_SOCKET_IFNAME names the network to use: %w",
		me.Rank, me.Node, errors.Join(errs...))
}

// localDevice returns the device of a process by its number on the node. A launcher may show a process all
// GPUs of the node, or only one.
func localDevice(d driver.API, local int) (driver.Device, error) {
	count, err := d.Count()
	switch {
	case err != nil:
		return 0, err
	case local < count:
		return driver.Device(local), nil
	case count == 1:
		return 0, nil
	}
	return 0, fmt.Errorf("process %d of this node has no GPU: the driver shows %d; gpus_per_node of the executor and of the runtime must agree", local, count)
}

// listenForRanks opens a TCP port on each address that ranks can connect to: on the interfaces selected by
// NCCL_SOCKET_IFNAME, or on all except loopback and docker.
func listenForRanks() ([]net.Listener, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}

	want := os.Getenv("NCCL_SOCKET_IFNAME")
	var out []net.Listener
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || !wantInterface(want, i.Name, i.Flags&net.FlagLoopback != 0) {
			continue
		}

		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface has been removed
		}

		for _, a := range addrs {
			ip, ok := a.(*net.IPNet)
			if !ok || ip.IP.IsLinkLocalUnicast() {
				continue
			}
			if l, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0")); err == nil {
				out = append(out, l)
			}
		}
	}

	if len(out) == 0 {
		if want != "" {
			return nil, fmt.Errorf("no network of this node is one of NCCL_SOCKET_IFNAME=%s", want)
		}
		return nil, errors.New("this node has no network that ranks on other nodes could reach; NCCL_SOCKET_IFNAME=lo is for ranks on this one")
	}

	return out, nil
}

// wantInterface reports whether NCCL_SOCKET_IFNAME selects an interface. As in NCCL, it is a
// comma-separated list of prefixes; a leading "=" requires exact names, and a leading "^" excludes the
// listed ones.
func wantInterface(want, name string, loopback bool) bool {
	if want == "" {
		return !loopback && !strings.HasPrefix(name, "docker")
	}

	list, not := strings.CutPrefix(want, "^")
	list, exact := strings.CutPrefix(list, "=")
	hit := slices.ContainsFunc(strings.Split(list, ","), func(w string) bool {
		return name == w || !exact && w != "" && strings.HasPrefix(name, w)
	})
	return hit != not && !(not && loopback)
}

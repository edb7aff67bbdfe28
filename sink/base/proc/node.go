package proc

import "os"

// NodeName returns the node name from Slurm's environment, or the host name. On test clusters, several
// nodes may share a host.
func NodeName() string {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

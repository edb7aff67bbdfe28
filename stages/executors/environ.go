package executors

import "strings"

// ownEnvironment returns env without the variables that change what Slurm's
// commands do: SBATCH_* override the script, SQUEUE_* and the like hide jobs, and
// inside an allocation SLURM_* describe that allocation. Variables that select
// the cluster and the kind of MPI stay.
func ownEnvironment(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_MPI_TYPE":
			out = append(out, kv)
			continue
		}

		if prefix, _, ok := strings.Cut(name, "_"); ok {
			switch prefix {
			case "SBATCH", "SLURM", "SLURMD", "SQUEUE", "SACCT", "SCANCEL", "SCONTROL":
				continue
			}
		}

		out = append(out, kv)
	}

	return out
}

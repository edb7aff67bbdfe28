package executors

import (
	"slices"
	"strings"
)

// sbatchReads are variables from which sbatch takes options, by the option: they
// count for more than lines "#SBATCH" of the script.
var sbatchReads = map[string][]string{
	"account": {"SBATCH_ACCOUNT"}, "partition": {"SBATCH_PARTITION"}, "qos": {"SBATCH_QOS"}, "constraint": {"SBATCH_CONSTRAINT"},
	"time": {"SBATCH_TIMELIMIT"}, "memory": {"SBATCH_MEM_PER_NODE", "SBATCH_MEM_PER_CPU", "SBATCH_MEM_PER_GPU"},
	"gpus_per_node": {"SBATCH_GPUS_PER_NODE", "SBATCH_GPUS", "SBATCH_GPUS_PER_TASK"}, "cpus_per_task": {"SBATCH_CPUS_PER_TASK"},
}

// alwaysSet are those that aicplan itself says.
var alwaysSet = []string{
	"SBATCH_ARRAY_INX", "SBATCH_ERROR", "SBATCH_JOB_NAME", "SBATCH_NO_REQUEUE", "SBATCH_OPEN_MODE", "SBATCH_OUTPUT", "SBATCH_REQUEUE", "SBATCH_SIGNAL",
	"SBATCH_WAIT",
}

// ofTasks begin the names of variables that Slurm sets in tasks only, some of them
// where they differ from 0.
var ofTasks = []string{"SLURM_RESTART_COUNT", "SLURM_ARRAY_", "SLURM_STEP", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_BITSTR_LEN", "SLURMD_", "SQUEUE_", "SACCT_", "SCONTROL_"}

// userWide are variables of Slurm's that say something about the user and not
// about a job.
var userWide = []string{"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_MPI_TYPE"}

// environment is what commands of Slurm get of an environment. With all of it,
// filters of the user's squeue would hide jobs, SBATCH_PARTITION would count for
// more than the plan, and jobs submitted from inside an allocation would take
// themselves for tasks of it. set are the attributes and options that the block
// says.
func environment(all, set []string) []string {
	drop := slices.Clone(alwaysSet)
	for _, name := range set {
		if names, ok := sbatchReads[name]; ok {
			drop = append(drop, names...)
		} else {
			drop = append(drop, "SBATCH_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		}
	}
	inside, clusters, cluster := false, false, ""
	for _, kv := range all {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "SLURM_JOB_ID":
			inside = true
		case "SLURM_CLUSTERS":
			clusters = true
		case "SBATCH_CLUSTERS":
			cluster = value
		}
	}
	out := slices.DeleteFunc(slices.Clone(all), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		return slices.Contains(drop, name) || slices.ContainsFunc(ofTasks, begins) || inside && begins("SLURM_") && !slices.Contains(userWide, name)
	})
	if cluster != "" && !clusters {
		out = append(out, "SLURM_CLUSTERS="+cluster) // for the commands that do not submit
	}
	return append(out, "SLURM_BITSTR_LEN=0") // indices of arrays are not to be cut off
}

// Set are the attributes and options of the block that sbatch would also take from
// the environment.
func (c *Config) Set() []string {
	out := sortedNames(c.Options)
	for name, is := range map[string]bool{
		"account": c.Account != "", "partition": c.Partition != "", "qos": c.QOS != "", "constraint": c.Constraint != "", "time": c.Time != "",
		"memory": c.Memory != "", "gpus_per_node": c.GPUsPerNode > 0, "cpus_per_task": c.CPUsPerTask > 0,
	} {
		if is {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

package executors

import (
	"slices"
	"strings"
	"testing"
)

// TestEnvironmentOfCommands: what the shell of the user says is not to change
// which jobs are seen, nor what the plan says of them.
func TestEnvironmentOfCommands(t *testing.T) {
	t.Parallel()
	shell := []string{
		"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SQUEUE_STATES=RUNNING", "SQUEUE_PARTITION=main", "SBATCH_PARTITION=debug", "SBATCH_ACCOUNT=mine",
		"SBATCH_OPEN_MODE=truncate", "SBATCH_WAIT=1", "SBATCH_RESERVATION=mine", "SLURM_HINT=nomultithread", "SLURM_RESTART_COUNT=2",
		"SLURM_ARRAY_TASK_ID=7", "SBATCH_CLUSTERS=other", "AICPLAN_VAR_token=secret",
	}
	set := (&Config{Partition: "gpu", Options: map[string]string{"reservation": "maint"}}).Set()
	want := []string{"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SBATCH_ACCOUNT=mine", "SLURM_HINT=nomultithread", "SBATCH_CLUSTERS=other", "AICPLAN_VAR_token=secret", "SLURM_CLUSTERS=other", "SLURM_BITSTR_LEN=0"}
	if got := environment(shell, set); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), strings.Join(want, " "))
	}
	// Inside an allocation its own size and memory would go to the jobs.
	inside := []string{"SLURM_JOB_ID=7", "SLURM_MEM_PER_NODE=4000", "SLURM_CONF=/etc/slurm.conf", "SLURM_NTASKS=4", "HOME=/root"}
	if got, want := environment(inside, nil), []string{"SLURM_CONF=/etc/slurm.conf", "HOME=/root", "SLURM_BITSTR_LEN=0"}; !slices.Equal(got, want) {
		t.Errorf("inside an allocation: %v, want %v", got, want)
	}
}

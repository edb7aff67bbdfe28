package executors

import (
	"slices"
	"testing"
)

func TestOwnEnvironmentDropsSlurmOptions(t *testing.T) {
	t.Parallel()
	shell := []string{
		"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SQUEUE_STATES=RUNNING", "SBATCH_PARTITION=debug", "SLURM_JOB_ID=7",
		"SLURM_ARRAY_TASK_ID=7", "SLURM_CLUSTERS=other", "SLURMTEST_DIR=/tmp", "AICPLAN_VAR_token=secret",
	}
	want := []string{"PATH=/bin", "SLURM_CONF=/etc/slurm.conf", "SLURM_CLUSTERS=other", "SLURMTEST_DIR=/tmp",
		"AICPLAN_VAR_token=secret"}
	if got := ownEnvironment(shell); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

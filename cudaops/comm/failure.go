package comm

import (
	"errors"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/dl"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// failureOf classifies an error. own is true if this process uses the devices, which then cannot continue
// after a lost device context.
func failureOf(err error, own bool) error {
	if err == nil {
		return nil
	}

	if fe, ok := errors.AsType[*worker.Failure](err); ok {
		return fe
	}

	f := worker.Failure{Message: err.Error(), Exception: "CommError"}
	rank, _ := errors.AsType[*rankError](err)
	switch {
	case cuda.OutOfMemory(err), rank != nil && rank.How == failMemory:
		f.Class, f.Exception = worker.ClassResourceIssue, "OutOfMemory"
	case errors.Is(err, measure.ErrTimer):
		f.Class = worker.ClassTransient
	case rank != nil && rank.How == failDied:
		f.Class, f.Exception = worker.ClassFrameworkBug, "RankDied"
	case rank != nil && rank.How == failHang:
		f.Class, f.Exception = worker.ClassTimeout, "RankHung"
	}

	f.Fatal = own && cuda.Sticky(err)

	return &f
}

// startFailure returns the error for a node that could not be opened.
func startFailure(err error) error {
	if _, classified := errors.AsType[*worker.Failure](err); err == nil || classified {
		return err
	}

	class := worker.ClassResourceIssue
	if dl.IsNotFound(err) {
		class = worker.ClassUnsupportedConfig
	}
	return worker.Failed(class, "%v", err)
}

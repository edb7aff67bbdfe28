package export

import (
	"encoding/json"
	"errors"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/tree"
)

// besideSpecs stages the files next to the specs of systems that the block asks
// for: which version can be asked for, and the framework's own attention kernels. It returns a digest of the kernels,
// which identify the files for their readers, or "" without kernels.
func (a *assembly) besideSpecs(batch *fileutil.Batch) (string, error) {
	place := a.to.place
	if a.Current {
		if a.lacksCases() {
			return "", errors.New("current = true, and the data is partial: readers would take it for the newest complete " +
				"version")
		}

		path, err := a.within(a.rc.OutDir, tree.SlotsFile)
		if err != nil {
			return "", err
		}

		err = restage(batch, path, func(data []byte) ([]byte, error) {
			return tree.NextSlots(data, place.System, place.Backend, place.Version)
		})
		if err != nil {
			return "", err
		}
	}

	if len(a.AttentionLanes) == 0 {
		return "", nil
	}

	path, err := a.within(a.rc.OutDir, tree.LanesFile)
	if err != nil {
		return "", err
	}

	lanes, _ := json.Marshal(a.AttentionLanes) // a map of texts
	return fileutil.Digest(lanes), restage(batch, path, func(data []byte) ([]byte, error) {
		return tree.NextLanes(data, place.Backend, place.Version, a.AttentionLanes)
	})
}

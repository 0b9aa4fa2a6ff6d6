// Command provisioner makes volumes for claims as a cloud's storage does: once the scheduler has
// chosen a node for the first pod of a claim, on that node, and gone with the claim. A volume is a
// folder, and its PersistentVolume a `local` one, so a pod can only ever run where its data is.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// name is what a StorageClass calls this program by.
const name = "nogoo9.test/folder"

// folders provisions volumes below root, in one folder for each node.
type folders struct{ root string }

func (f folders) path(node, volume string) string { return filepath.Join(f.root, node, volume) }

// Provision makes the folder on the node that the scheduler chose.
func (f folders) Provision(_ context.Context, options controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if options.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished,
			fmt.Errorf("claim %s/%s: its class must bind at its first consumer", claim.Namespace, claim.Name)
	}
	path := f.path(options.SelectedNodeName, options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	// Containers run as any user, and MkdirAll heeds the umask.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:   options.PVName,
			Labels: map[string]string{v1.LabelHostname: options.SelectedNodeName},
		},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{
						Key:      v1.LabelHostname,
						Operator: v1.NodeSelectorOpIn,
						Values:   []string{options.SelectedNodeName},
					}},
				}},
			}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the folder. Its path is made from names, never taken from the object.
func (f folders) Delete(_ context.Context, volume *v1.PersistentVolume) error {
	node := volume.Labels[v1.LabelHostname]
	if node == "" || filepath.Base(node) != node {
		return fmt.Errorf("volume %s does not say on which node it is", volume.Name)
	}
	return os.RemoveAll(f.path(node, volume.Name))
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "file to reach the API server by")
	root := flag.String("root", "", "folder for volumes")
	flag.Parse()
	if *kubeconfig == "" || *root == "" {
		return fmt.Errorf("both --kubeconfig and --root are needed")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	controller.NewProvisionController(ctx, client, name, folders{*root}, controller.LeaderElection(false)).Run(ctx)
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

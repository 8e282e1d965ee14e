"""What this machine really has: quota, affinity, memory within limits, disks by probe."""

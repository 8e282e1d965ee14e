"""The local web page: playground and runs. Each request makes one public call."""

"""The local web page: playground and runs. Takes a request, makes one public call, gives a page."""

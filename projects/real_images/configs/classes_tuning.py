# To choose settings: test on a third of the training images.
_base_ = ['./classes.py']

tuning = True
label_counts = ()
steps = 400
rates = {'lin': 1e-3}
